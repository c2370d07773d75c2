package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// declaredWell reports whether a declared node can be planned at all. The configuration checks most
// of this, with better positions, but a plan must not rely on it. A declaration that is refused here
// appears in no later step: they all rely on valid parameters, on legal paths below the root, and on
// one declaration per path.
func declaredWell(p *plan.Plan, s *access.Sides, n *plan.Node) bool {
	switch {
	case n.Payload == nil || n.Payload.Params == nil:
		access.Tell(p, problem.Error, problem.Damaged, n, "Declaration without parameters",
			fmt.Sprintf("%s at %s has no parameters. Give it those of a type of lock or of a namespace.", n.Addr, n.Path))
	case s.Want[n.Path] != nil:
		access.Tell(p, problem.Error, problem.Duplicate, n, "Path declared twice",
			fmt.Sprintf("%s is declared by %s and by %s. Give one of them another name.", n.Path, s.Want[n.Path].Addr, n.Addr))
	case kind.ValidatePath(n.Path) != nil:
		access.Tell(p, problem.Error, problem.Path, n, "Illegal path", explain.Sentence(kind.ValidatePath(n.Path).Error()))
	case !access.Under(n.Path, p.Root) || n.Path == record.ScaffoldPath(p.Root) || access.Under(n.Path, record.ScaffoldPath(p.Root)):
		access.Tell(p, problem.Error, problem.Path, n, "Path outside the tree",
			fmt.Sprintf("%s must be below the root %s, and not below %s, where locktree keeps its own nodes.",
				n.Path, p.Root, record.ScaffoldPath(p.Root)))
	case kind.Validate(n.Payload.Params) != nil:
		access.Tell(p, problem.Error, problem.Damaged, n, "Invalid parameters", explain.Sentence(kind.Validate(n.Payload.Params).Error()))
	default:
		return true
	}
	return false
}

// obstacle reports a node that is not ours at the path of a declared one. It is an error: the declaration cannot be fulfilled, and
// the other node must not be overwritten. It is a warning if the declared node (want) is a namespace in which others may create
// nodes and in which nothing is declared: others must not stop the plan.
func obstacle(p *plan.Plan, s *access.Sides, want, have *plan.Node) {
	severity, then := problem.Error, ""
	if want.Kind().Container && access.OthersCreateAfter(p, want.ACL) && !slices.ContainsFunc(s.Desired, func(n *plan.Node) bool { return access.Under(n.Path, want.Path) }) {
		severity, then = problem.Warning, " No other declaration depends on it, so the plan goes on without it."
	}
	tell := func(code problem.Code, summary, detail string) {
		access.Tell(p, severity, code, want, summary, detail+then)
	}
	at := fmt.Sprintf("%s is declared at %s, ", want.Addr, want.Path)
	switch trouble, detail := troubleOf(have); trouble {
	case "":
		if access.IsOurs(p, have) {
			tell(problem.MarkerLost, "Namespace was made a lock",
				fmt.Sprintf("%s is a namespace, and its data was replaced by a declaration of the type %s. It has %d node%s in it, so it cannot be replaced. Restore its data, or delete by hand what is in it.",
					want.Path, have.Kind().Name, have.Live.Children, explain.Plural(have.Live.Children)))
			return
		}
		if have.Payload.Owner.Stack == "" {
			tell(problem.Foreign, "Path is taken by a lock that was let go",
				at+fmt.Sprintf("where there is a %s that its stack has forgotten. Take it over: import { to = %s, path = %q }.",
					have.Kind().Name, want.Addr, want.Path))
			return
		}
		tell(problem.OtherStack, "Path belongs to another stack",
			at+fmt.Sprintf("where stack %q already keeps %s. Choose another path, or remove it from that stack first.",
				have.Payload.Owner.Stack, have.Owned()))
	case plan.TroubleNewer:
		tell(problem.Newer, "Node written by a newer version", at+"where "+detail+".")
	case plan.TroubleDamaged:
		tell(problem.Damaged, "Node is damaged",
			at+"where a locktree node cannot be understood ("+detail+"). Restore its data, or write it again: "+healing(want)+".")
	case plan.TroubleUnreadable:
		tell(problem.Unreadable, "Node cannot be read",
			at+"where there is a node that this connection cannot read. Connect with an identity that has READ there.")
	default:
		left := "It is left alone: choose another path, or take it over: " + takeover("", want) + "."
		switch {
		case have.Live == nil:
		case have.Live.Ephemeral:
			left = "It is ephemeral and ends with its session: choose another path, or end the program that created it."
		case have.Live.DataLength > 0:
			left = "It is left alone: choose another path, or take it over, which also restores data that was replaced by hand: " + healing(want) + "."
		}
		tell(problem.Foreign, "Path is taken", at+"where a node exists that does not carry locktree's mark. "+left)
	}
}

// remains reports a node at a declared path that a destroy leaves, although it may be ours.
func remains(p *plan.Plan, s *access.Sides, want, have *plan.Node) {
	trouble, _ := troubleOf(have)
	if want != nil && (access.IsOurs(p, have) || slices.Contains([]plan.Trouble{plan.TroubleNewer, plan.TroubleDamaged, plan.TroubleUnreadable}, trouble)) {
		obstacle(p, s, want, have)
	}
}

// healing is the command that overwrites a node's data with its declaration.
func healing(want *plan.Node) string { return takeover(" -overwrite-data", want) }

func takeover(flags string, want *plan.Node) string {
	return "locktree import" + flags + " " + shellWord(string(want.Addr)) + " " + shellWord(want.Path)
}

// shellWord quotes a word for the shell, if necessary.
func shellWord(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-:", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func troubleOf(n *plan.Node) (plan.Trouble, string) {
	switch {
	case n.Live != nil && n.Live.Ephemeral:
		return plan.TroubleForeign, "an ephemeral node"
	case n.Payload != nil:
		return "", ""
	case n.Live == nil || n.Live.Trouble == "":
		return plan.TroubleForeign, ""
	default:
		return n.Live.Trouble, n.Live.Detail
	}
}

// checkRemoval checks what forbids deleting a node. The parameter want is its declaration, if any.
//
// Both protections count. The protection in the node holds even after the block is gone (unlike Terraform's prevent_destroy,
// hashicorp/terraform#17599). The one in the declaration holds before it is applied. Unprotecting and deleting takes two applies,
// so that one mistake cannot do both.
func checkRemoval(p *plan.Plan, c *plan.Change, want *plan.Node) {
	n := &plan.Node{Addr: c.Before.Owned(), Path: c.Path}
	if want != nil {
		n.Origin = want.Origin
	}
	verb := "deleted"
	if c.Action == plan.Replace || c.NextPath != "" {
		verb = "replaced"
	}
	if c.Before.Payload.Protect || want != nil && want.Payload.Protect {
		access.Tell(p, problem.Error, problem.Protected, n, "Protected node cannot be "+verb,
			fmt.Sprintf("%s would be %s, but it is protected (prevent_destroy). The protection is stored in the node: "+
				"declare it with prevent_destroy = false, apply that, and try again.", n.Addr, verb))
	}
	if c.NeedsIdle() && c.Usage.Busy() {
		if c.NextPath != "" {
			verb += " by one at " + c.NextPath
		}
		warnBusy(p, c, verb)
	}
}

// checkShrink warns when the new parameters admit fewer contenders than hold now. It asks the kind's
// own admission rule, with the new parameters and a queue of only the holders.
func checkShrink(p *plan.Plan, c *plan.Change) {
	if len(c.Params) == 0 || c.Usage == nil {
		return
	}
	params := c.After.Payload.Params
	if c.Kind.Key != nil {
		params = c.Kind.Key(params)
	}
	held := map[string][]string{} // by key, which is "" for a lock that is not in a family
	for _, h := range c.Usage.Holders {
		held[h.Key] = append(held[h.Key], h.Name)
	}
	keys, all, over := 0, 0, 0
	for _, names := range held {
		queue, _ := kind.SortContenders(names)
		before := over
		for i := range queue {
			if admitted, _ := params.Kind().Queues[0].Admit(params, queue, i); !admitted {
				over++
			}
		}
		if all += len(queue); over > before {
			keys++
		}
	}
	switch {
	case over == 0:
	case c.Kind.Key != nil:
		access.Tell(p, problem.Warning, problem.Shrink, c.After, "More permits held than the new limit",
			fmt.Sprintf("%s: in %d of the keys that were looked at, more permits are held than the new parameters admit, %d too many together. No holder is interrupted: "+
				"nothing new is granted for a key until enough of its permits are released.", c.Addr, keys, over))
	default:
		access.Tell(p, problem.Warning, problem.Shrink, c.After, "More permits held than the new limit",
			fmt.Sprintf("%s: %d permits are held, %d more than the new parameters admit. No holder is interrupted: "+
				"nothing new is granted until that many of them are released.", c.Addr, all, over))
	}
}

// contents are the nodes that stay in namespaces: nodes of other programs, forgotten nodes, and nodes outside of the targets.
// Declared nodes count only in a destroy. In other plans, a declared node in an undeclared namespace is an error, see
// checkParents.
type contents struct {
	of   map[string][]string // the nodes that stay, by the path of each namespace around them
	mine map[string]bool     // for a node that was ours: true if it is still ours after the plan
}

// notRead ends an entry for nodes that were only counted.
const notRead = " not read)"

// contentsOf finds the nodes that stay, according to the changes so far.
func contentsOf(p *plan.Plan, s *access.Sides) contents {
	x := contents{map[string][]string{}, map[string]bool{}}
	staying := slices.Clone(s.Current.Unmanaged)
	for c := range p.Each() {
		if c.After != nil && (s.Opts.Destroy || s.Want[c.Path] == nil) {
			staying = append(staying, c.Path)
			x.mine[c.Path] = access.IsOurs(p, c.After)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.Current.Unread)) {
		if n := s.Current.Unread[path]; n > 0 {
			staying = append(staying, fmt.Sprintf("%s/* (%d node%s%s", path, n, explain.Plural(n), notRead))
		}
	}
	for _, u := range staying {
		for p := kind.ParentPath(u); p != "/"; p = kind.ParentPath(p) {
			x.of[p] = append(x.of[p], u)
		}
	}
	return x
}

// tie returns the contents of a namespace that prevent its change. ZooKeeper deletes no node with children, so one foreign lock
// would make it refuse the whole transaction. A namespace with nodes of ours is not forgotten, because a read finds them by its
// mark.
func (x contents) tie(c *plan.Change) []string {
	switch c.Action {
	case plan.Delete, plan.Replace:
		return x.of[c.Path]
	case plan.Forget:
		return slices.DeleteFunc(slices.Clone(x.of[c.Path]), func(p string) bool { return !x.mine[p] })
	}
	return nil
}

// keepOccupied keeps namespaces in which a node stays: they are neither deleted nor forgotten.
func keepOccupied(p *plan.Plan, s *access.Sides) {
	staying := contentsOf(p, s)
	for c := range p.Each() {
		inside := staying.tie(c)
		if len(inside) == 0 {
			continue
		}
		n, then := &plan.Node{Addr: c.Addr, Path: c.Path}, "the namespace is left where it is"
		if c.Action == plan.Forget {
			then = "the namespace is not forgotten yet"
		}
		_, mine := staying.mine[inside[0]]
		switch what := describeContents(s, c.Path, inside, mine); {
		case c.Action == plan.Replace, len(c.Tied()) > 0:
			way := "delete by hand what is in it"
			if mine {
				way = "delete the block \"removed\" that keeps what is in it and plan the whole configuration"
			}
			access.Tell(p, problem.Error, problem.Unmanaged, n, "Namespace is not empty",
				fmt.Sprintf("%s: it cannot be replaced. Give %s another name, or %s.", what, c.Addr, way))
			continue
		default:
			access.Tell(p, problem.Warning, problem.Unmanaged, n, "Namespace is not empty", what+": "+then+".")
		}
		leave(c)
	}
}

// describeContents says what stays in a namespace.
func describeContents(s *access.Sides, path string, inside []string, mine bool) (what string) {
	what = ", which this stack did not create"
	switch first := inside[0]; {
	case mine:
		what = ", which stays"
	case strings.HasSuffix(first, notRead):
		what = ""
	case slices.Contains(s.Current.Unreadable, first):
		what = ", which this connection cannot read"
	case slices.ContainsFunc(s.Current.Illegible, func(n *plan.Node) bool { return n.Path == first }):
		what = ", whose mark cannot be understood"
	}
	if len(inside) > 1 {
		what += fmt.Sprintf(" (and %d more)", len(inside)-1)
	}
	return fmt.Sprintf("%s contains %s%s", path, inside[0], what)
}

// leave turns a change of an existing node into a NoOp. After is the node that was found: it stays as it is.
func leave(c *plan.Change) {
	*c = plan.Change{
		Action: plan.NoOp, Addr: c.Before.Owned(), Path: c.Path, Kind: c.Before.Kind(), Before: c.Before, After: c.Before,
		Usage: c.Usage,
	}
}

// checkParents requires every node to be in the root or in a declared namespace. An existing node is included: its namespace
// would be deleted around it.
func checkParents(p *plan.Plan, s *access.Sides) {
	for _, n := range s.Desired {
		parent := kind.ParentPath(n.Path)
		if parent == p.Root {
			continue
		}
		switch around := s.Want[parent]; {
		case around == nil:
			access.Tell(p, problem.Error, problem.Parent, n, "Parent is not declared",
				fmt.Sprintf("%s is declared at %s, but nothing declares %s. Declare a namespace there.", n.Addr, n.Path, parent))
		case !around.Kind().Container:
			access.Tell(p, problem.Error, problem.Parent, n, "Parent is a lock",
				fmt.Sprintf("%s is declared inside %s, which is a %s: every child of a lock counts as a contender.",
					n.Addr, around.Addr, around.Kind().Name))
		}
	}
}

// warnDraining warns of locks that an interrupted apply left draining. They grant nothing new, so the plan must say what happens to
// them, even without other changes. A lock that this plan opens again is visible by itself: its state changes.
//
// A draining lock that the plan leaves alone shows no difference. Its state is not a parameter, and its sum leaves it out,
// because draining is not an edit by hand.
func warnDraining(p *plan.Plan) {
	for c := range p.Each() {
		if c.Before == nil || !access.IsOurs(p, c.Before) || c.Before.Payload.State != kind.StateDraining ||
			c.Revive && c.Action == plan.Update {
			continue
		}
		n := &plan.Node{Addr: c.Addr, Path: c.Path}
		then := "This plan leaves it closed: plan the whole configuration, which opens it again, or deletes it if it is not declared."
		switch {
		case c.Action == plan.Forget:
			then = "This plan opens the lock again and forgets it, in one write."
		case c.Action == plan.Replace, c.NextPath != "":
			then = "This plan replaces the lock when it is idle."
		case c.Action == plan.Delete:
			then = "This plan deletes the lock when it is idle. An apply of a configuration that declares it opens it instead."
		}
		access.Tell(p, problem.Warning, problem.Draining, n, "Lock was left draining",
			fmt.Sprintf("An apply was interrupted while it waited for %s to become idle, and since then the lock grants nothing new. %s", c.Addr, then))
	}
}

// warnContainers warns of the locks that stay in nodes which other programs made.
func warnContainers(p *plan.Plan) {
	var paths []string
	for c := range p.Each() {
		if c.After != nil && c.Action != plan.Forget && c.After.Payload.Made == kind.MadeElsewhere {
			paths = append(paths, c.Path)
		}
	}
	if n := len(paths); n > 0 {
		access.Tell(p, problem.Warning, problem.Container, &plan.Node{}, "Locks may be containers",
			fmt.Sprintf("%d lock%s in use in a node that another program made: %s. If that is a container, the servers delete it soon after the last program leaves, "+
				"and programs that use this library are refused until the next apply. Apply again later: an apply replaces those that are idle by nodes that stay.",
				n, map[bool]string{true: " is", false: "s are"}[n == 1], explain.Few(paths, 3)))
	}
}

// A plan that deletes more than massShare percent of the nodes in a namespace, and at
// least massLeast of them, is most often a mistake: a wrong variable file, an empty map,
// another directory. The root counts as a namespace.
const massShare, massLeast = 30, 5

// checkMass finds namespaces that would lose too much, only the outermost ones.
//
// Every node counts in each namespace around it. The share alone would stop the deletion of one lock of two. The number alone
// would stop the deletion of five locks out of ten thousand. Together they are octoDNS's idea of an unsafe plan. Replacements and
// imports do not count: the lock is there afterwards.
func checkMass(p *plan.Plan, s *access.Sides) {
	if s.Opts.Destroy || s.Opts.AllowMassDestroy {
		return
	}
	total, gone := map[string]int{}, map[string]int{}
	for c := range p.Each() {
		if c.Before == nil || c.Importing != "" {
			continue
		}
		for at := c.Path; at != p.Root && at != "/"; {
			at = kind.ParentPath(at)
			total[at]++
			if c.Action == plan.Delete && c.NextPath == "" {
				gone[at]++
			}
		}
	}
	var paths []string
	for at, n := range gone {
		if n >= massLeast && 100*n > massShare*total[at] && (at == p.Root || access.Under(at, p.Root)) {
			paths = append(paths, at)
		}
	}
	slices.Sort(paths)
	for i, at := range paths {
		if slices.ContainsFunc(paths[:i], func(q string) bool { return access.Under(at, q) }) { // paths are sorted, so a namespace comes before its contents
			continue
		}
		n := &plan.Node{Path: at}
		if have := s.Have[at]; have != nil {
			n.Addr = have.Addr
		}
		access.Tell(p, problem.Error, problem.MassDestroy, n, "Most of a namespace would be destroyed",
			fmt.Sprintf("%d of the %d nodes in %s would be deleted. If that is intended, plan again with -allow-mass-destroy.", gone[at], total[at], at))
	}
}

// maxListing bounds the length of all names in a namespace, as a server sends them in one reply. Servers send a listing of any
// length, but this library's clients read 16 MiB unless they are told otherwise (recipes.Config.MaxReply). Our own reads are
// longer, so that what exists already can be planned and destroyed.
const maxListing = 16<<20 - 4096

// javaListing is what Java clients and ZooKeeper's own shell read in one reply (jute.maxbuffer), without the stat and what is
// around it.
const javaListing = 1<<20 - 1 - 100

// contenderName is the length of a contender's name in a listing: `_c_`, a UUID, `-lock-` and ten digits, behind the length
// itself. Our clients can read a listing of 284,000 such names, Java clients one of 17,700.
const contenderName = 4 + 3 + 36 + 6 + 10

// checkListings finds namespaces that would grow too long to be listed, and those that have become too long for other clients.
func checkListings(p *plan.Plan, s *access.Sides) {
	length, nodes, grows := map[string]int{}, map[string]int{}, map[string]bool{}
	add := func(path string) (at string) {
		at = kind.ParentPath(path)
		length[at] += 4 + len(path) - len(kind.JoinPath(at, "")) // the length of the node's name, and 4 bytes for that length
		nodes[at]++
		return at
	}
	for c := range p.Each() {
		if c.After == nil {
			continue
		}
		if at := add(c.Path); c.Before == nil {
			grows[at] = true
		}
	}
	for _, path := range s.Current.Unmanaged {
		add(path)
	}
	var wide []string
	for at := range length {
		if length[at] > javaListing {
			wide = append(wide, at)
		}
	}
	slices.Sort(wide)
	for _, at := range wide {
		n := &plan.Node{Path: at}
		if s.Want[at] != nil {
			n = s.Want[at]
		}
		if !grows[at] || length[at] <= maxListing {
			access.Tell(p, problem.Warning, problem.Listing, n, "Java clients cannot list a namespace",
				fmt.Sprintf("%s has %d nodes, whose names are %d bytes together. This library reads up to %d bytes, but Java clients and ZooKeeper's shell only up to %d "+
					"(jute.maxbuffer), so that they cannot list the namespace. Divide the nodes among several namespaces, or give them shorter names.", at, nodes[at], length[at], maxListing, javaListing))
			continue
		}
		access.Tell(p, problem.Error, problem.Listing, n, "Too many nodes in one namespace",
			fmt.Sprintf("%s would have %d nodes, whose names are %d bytes together. A listing is one reply, and clients read up to %d bytes of it, "+
				"so that the namespace could not be listed any more. Divide the nodes among several namespaces, or give them shorter names.", at, nodes[at], length[at], maxListing))
	}
}

// checkCrowds finds locks, and directories of families, with more children than Java clients can list. Not all names were read,
// so every name counts as long as a contender's.
func checkCrowds(p *plan.Plan, s *access.Sides) {
	for c := range p.Each() {
		if c.Before == nil || c.After == nil || c.Before.Live == nil || c.Before.Kind() == nil || c.Before.Kind().Container {
			continue
		}
		most := c.Before.Live.Children
		for _, part := range c.Before.Live.Parts {
			most = max(most, part.Children)
		}
		if most*contenderName <= javaListing {
			continue
		}
		next := "End the programs that need not wait, or declare max_waiters."
		if c.Before.Kind().Key != nil {
			next = "Spread the keys over directories: fanout, which replaces the family when no key is in use."
		}
		n := &plan.Node{Addr: c.Addr, Path: c.Path}
		if want := s.Want[c.Path]; want != nil { // a lock that is forgotten, or left as it is by a plan with targets, may have no declaration here
			n.Origin = want.Origin
		}
		access.Tell(p, problem.Warning, problem.Listing, n, "Java clients cannot list a lock",
			fmt.Sprintf("%s has a node with %d children. More than about %d are too many for a listing that Java clients and ZooKeeper's shell read (jute.maxbuffer), "+
				"so programs of Curator cannot take part. This library lists up to about %d. %s", c.Path, most, javaListing/contenderName/100*100, maxListing/contenderName/1000*1000, next))
	}
}
