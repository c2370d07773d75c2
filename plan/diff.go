package plan

import (
	"cmp"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// differ is one run of Diff.
type differ struct {
	current *Tree
	desired []*Node               // sorted, legal, each path once
	given   []*Node               // what is declared, also what is declared wrongly
	want    map[string]*Node      // desired, by path
	have    map[string]*Node      // current, by path
	indexed map[string]string     // keys of the index's entries, by path; see addrOfKey
	pending map[string][]kind.ACL // lists that an interrupted apply had still to set, by path
	bases   map[string]bool       // addresses of desired nodes that have a key, without it
	opts    Options
	p       *Plan

	intent    Intent
	byAddr    map[string]*Node     // desired; nil for an address that is declared twice
	movesTo   map[string]*Node     // by the path of what moves: its declaration
	movesFrom map[string]*Node     // by the path of a declaration: what moves there
	imports   map[string]*Import   // by the path of a declaration
	refused   map[string]bool      // declarations whose import is refused: nothing is planned for them
	held      []heldBack           // namespaces that stay because of what is in them
	spent     []string             // paths of tombstones that may go
	limits    map[string]LiveQuota // quotas that were found, by path: those that are ours to change
	doubtful  map[string]LiveQuota // and those of which nobody knows
	outside   map[string]bool      // paths that Targets and Excludes leave out
	asked     map[string]bool      // blocks, by their address, of which something is planned with Targets and Excludes
	replace   *globs
	breaks    map[string]bool // addresses whose contenders are deleted with them
	verdicts  map[listNeed]verdict
	remarks   []*remark
	unsure    bool // it was said that a list stays for another stack
}

// entry is what the index knows about a path.
func (d *differ) entry(path string) (key string, e IndexEntry, ok bool) {
	if key, ok = d.indexed[path]; ok {
		e = d.current.Index.Resources[key]
	}
	return key, e, ok
}

// diff runs the steps. Each may rely on those before it:
//
//   - wantQuotas puts copies into want and desired, so it comes before anything that keeps
//     one of their nodes. plot comes before adoptions: what moves already is not imported.
//   - comparison has matched the replacements; limit takes out those that were not asked
//     for, and says what onlyRefresh and drift leave unsaid.
//   - keepOccupied comes when it is known what goes. What it takes back counts as staying in
//     checkMass, draining and unnoted.
//   - tidy asks whether the plan changes anything. All that can be the reason for that
//     (unnoted, leftQuotas, outputs) comes first.
//   - ownLists comes when it is known which tombstones stay; audit looks at what it plans.
//   - order comes when no action changes any more, and clashes behind it: of two nodes with
//     one address the first keeps it in the index, and a plan that is read from a file, where
//     its changes stand in this order, has to come to the same keys.
//   - measure cuts the plan into its transactions, which takes all of it, the pin of the
//     index included.
func diff(current, desired *Tree, opts Options) *Plan {
	if current == nil {
		current = &Tree{}
	}
	d := &differ{
		current: current, opts: opts,
		want: make(map[string]*Node, len(desired.Nodes)), have: make(map[string]*Node, len(current.Nodes)), bases: map[string]bool{},
		movesTo: map[string]*Node{}, movesFrom: map[string]*Node{}, imports: map[string]*Import{}, refused: map[string]bool{},
		asked:  map[string]bool{},
		intent: desired.Intent, given: desired.Nodes,
		p: &Plan{
			Ensemble: desired.Ensemble, Root: desired.Root, Stack: desired.Stack,
			Destroy: opts.Destroy, ConfigHash: desired.Intent.ConfigHash,
		},
	}
	d.index(desired)
	d.unmask()
	d.p.Index, d.p.Destroys = current.IndexPin, current.Destroys
	if d.p.Index.Path == "" {
		d.p.Index = Pin{Path: IndexPath(d.p.Root, d.p.Stack), Absent: true}
	}
	if !opts.Destroy {
		d.wantQuotas()
		d.plot()
		d.adoptions()
	}
	d.replace, d.breaks = compileGlobs(opts.Replace), map[string]bool{}
	for _, a := range opts.ForceBreak {
		d.breaks[a] = true
	}
	d.changes()
	d.quotas()
	if !opts.Destroy {
		d.checkParents()
		d.checkAccess()
	}
	d.unused("replacement", d.replace)
	d.forced()
	d.limit()
	d.onlyRefresh()
	d.keepOccupied()
	d.checkMass()
	d.draining()
	d.unnoted()
	d.unseen()
	d.drift()
	d.keepNoted()
	d.leftQuotas()
	d.doubtfulQuotas()
	d.p.Drain = opts.drainMs()
	d.outputs()
	d.tidy()
	d.ownLists()
	d.undeclared()
	d.audit()
	d.order()
	d.pins()
	d.p.clashes()
	// A note whose lists are all set needs no finishing: the apply was interrupted
	// just before it cleared the note, and the next one that writes does.
	if x := current.Index; x != nil && len(x.Pending) > 0 && len(d.p.ACLSteps()) > 0 {
		d.p.Resumes = x.Apply
	}
	d.p.measure()
	return d.p
}

// index fills the maps and sorts out what is declared wrongly.
func (d *differ) index(desired *Tree) {
	for _, n := range d.current.Nodes {
		d.have[n.Path] = n
	}
	if x := d.current.Index; x != nil {
		d.indexed = make(map[string]string, len(x.Resources))
		for addr, e := range x.Resources {
			// Of two entries for one path, which no apply writes, the same one in every plan.
			if first, twice := d.indexed[e.Path]; !twice || addr < first {
				d.indexed[e.Path] = addr
			}
		}
		d.pending = make(map[string][]kind.ACL, len(x.Pending))
		for _, p := range x.Pending {
			d.pending[p.Path] = p.ACL
		}
		d.p.prior.Extra, d.p.prior.Shards = x.extra, x.Shards
	}
	d.haveQuotas()
	nodes := slices.Clone(desired.Nodes)
	slices.SortStableFunc(nodes, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Addr, b.Addr))
	})
	for _, n := range nodes {
		if !d.declaredWell(n) {
			continue
		}
		d.want[n.Path] = n
		d.desired = append(d.desired, n)
		if base, _, ok := splitKey(n.Addr); ok {
			d.bases[base] = true
		}
	}
}

// changes decides for every path of either tree.
func (d *differ) changes() {
	paths := d.paths()
	d.p.Changes = make([]Change, 0, len(paths))
	for _, path := range paths {
		want, have := d.want[path], d.have[path]
		if d.opts.Destroy {
			want = nil
		}
		switch {
		case want == nil && have == nil, d.refused[path]: // destroying what is not there
		// What moves is asked for before whose it is: an import to another path buries a node
		// that is not ours.
		case want == nil && d.movesTo[path] != nil:
			d.add(d.bury(have, d.movesTo[path]))
		case want == nil && !d.ours(have):
			d.abandon(have)
		case want == nil:
			d.add(d.departure(have))
		case have == nil:
			d.add(d.creation(want))
		case !d.ours(have):
			if c, ok := d.adoption(want, have); ok {
				d.add(c)
			} else {
				d.obstacle(want, have)
			}
		default:
			d.add(d.comparison(want, have))
		}
	}
}

func (d *differ) paths() []string {
	out := make([]string, 0, len(d.have)+len(d.want))
	for p := range d.have {
		out = append(out, p)
	}
	for p := range d.want {
		if d.have[p] == nil {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// ours reports whether the node carries this stack's marker.
//
// An ephemeral node is never ours, whatever its data says: an apply makes none, so somebody
// copied the marker, and the node is gone with its session (TestEphemeralNodeIsNeverOurs).
func (d *differ) ours(n *Node) bool {
	return n != nil && n.Payload != nil && n.Payload.Owner.Stack == d.p.Stack && (n.Live == nil || !n.Live.Ephemeral)
}

func (d *differ) add(c Change) { d.p.Changes = append(d.p.Changes, c) }

func (d *differ) deletion(have *Node) Change {
	c := Change{
		Action: Delete, Addr: have.Payload.Owner.Addr, Path: have.Path, Kind: have.Kind(),
		Before: have, Usage: usage(have), Drift: d.drifted(have),
	}
	if !d.opts.Destroy {
		c.Reason = ReasonDeleteNoConfig
		if base, _, ok := splitKey(c.Addr); ok && d.bases[base] {
			c.Reason = ReasonDeleteEachKey
		}
	}
	// Nobody stands in a namespace, and what it contains is not to be broken for its address.
	c.Break = d.breaks[c.Addr] && !c.Kind.Container
	d.checkRemoval(&c, d.want[have.Path])
	return c
}

func (d *differ) creation(want *Node) Change {
	_, known := d.indexed[want.Path]
	after := want.withPayload()
	after.Payload.Gen = 1
	c := Change{
		Action: Create, Addr: want.Addr, Path: want.Path, Kind: want.Kind(), After: after,
		Drift: known, // the index knows it, so somebody deleted it
	}
	d.continued(&c)
	return c
}

// continued completes the change of the node at the new path of a move.
func (d *differ) continued(c *Change) {
	from := d.movesFrom[c.Path]
	if from == nil {
		return
	}
	c.PreviousPath = from.Path
	if was := from.Payload.Owner.Addr; was != c.Addr {
		c.PreviousAddr = was
	}
	if imp := d.imports[c.Path]; imp != nil && imp.Path == from.Path && !d.ours(from) {
		c.Importing = imp.Path
	}
	// The lock is a new node, but the same declaration to whoever follows it there: what a newer
	// version wrote is kept, and the generation does not fall.
	c.After.Payload.Carry(from.Payload)
	c.After.Payload.Gen = max(c.After.Payload.Gen, from.Payload.Gen+1)
}

// comparison is the change of a node of ours that is also declared.
//
// The order of the cases: what forces a replacement does so whether or not one was asked for,
// and is then its reason. A namespace is not replaced by request, nor for its access list,
// because everything in it would have to go. A node of which only the address differs comes
// before rewrites, to which the address is a difference like any other.
func (d *differ) comparison(want, have *Node) Change {
	c := Change{Addr: want.Addr, Path: want.Path, Kind: want.Kind(), Before: have, Usage: usage(have)}
	c.After = want.withPayload()
	c.compare()
	switch {
	case len(c.ForcesReplace) > 0:
		c.Action, c.Reason, c.Break = Replace, ReasonReplaceCannotUpdate, d.breaks[c.Addr]
		d.checkRemoval(&c, want)
	case d.replace.match(c.Addr) && !c.Kind.Container:
		c.Action, c.Reason, c.Break, c.MissingParts = Replace, ReasonReplaceByRequest, d.breaks[c.Addr], nil
		d.checkRemoval(&c, want)
	case want.ReplaceForACL && c.ACL != nil && !c.Kind.Container:
		c.Action, c.Reason, c.Break, c.MissingParts = Replace, ReasonReplaceACL, d.breaks[c.Addr], nil
		d.checkRemoval(&c, want)
	case c.onlyRenamed():
		// As in Terraform, an address is no property of the thing: nothing to change.
		c.Action = NoOp
		c.After.Payload.Carry(have.Payload)
	case c.rewrites() || c.ACL != nil || c.MissingParts != nil:
		c.Action = Update
		c.After.Payload.Carry(have.Payload)
		d.checkShrink(&c)
	default:
		c.Action = NoOp
		c.After.Payload.Carry(have.Payload)
	}
	// The generation counts what is written into the node's data. It must not rise for an access
	// list or a missing part alone: the data would differ by it, and have to be written for it.
	c.After.Payload.Gen = have.Payload.Gen
	if c.Action == Replace || c.rewrites() {
		c.After.Payload.Gen++
	}
	c.Drift = c.Action != NoOp && d.drifted(have)
	if c.Action == NoOp && !c.renamed() && d.movesFrom[c.Path] == nil {
		// What stays at the node is what is there, to the byte. In most plans nearly
		// all nodes are such, and a copy for each is a seventh of the plan's memory.
		c.After.Payload = have.Payload
	}
	d.continued(&c)
	return c
}

// onlyRenamed reports whether the address is all that differs. Such a change is
// NoOp and writes the node's marker nevertheless.
func (c *Change) onlyRenamed() bool {
	return c.PreviousAddr != "" && c.PreviousPath == "" && c.ACL == nil && c.MissingParts == nil && len(c.ForcesReplace) == 0 &&
		len(c.Params) == 0 && c.ChildACL == nil && c.Protect == nil && !c.Revive && c.Importing == ""
}

// compare fills in how After differs from Before. Nothing that lock traffic
// moves is looked at, so traffic is never drift.
func (c *Change) compare() {
	if c.Before.Kind() != c.After.Kind() {
		c.ForcesReplace = []string{"type"}
	} else {
		c.Params = kind.Diff(c.Before.Payload.Params, c.After.Payload.Params)
	}
	for _, p := range c.Params {
		if p.Replace {
			c.ForcesReplace = append(c.ForcesReplace, p.Name)
		}
	}
	have, want := c.Before.Payload, c.After.Payload
	// What a move left is the former node of nothing.
	if have.Owner.Addr != want.Owner.Addr && have.Owner.Addr != "" && have.State != kind.StateMoved {
		c.PreviousAddr = have.Owner.Addr
	}
	if have.Protect != want.Protect {
		c.Protect = &ProtectDiff{have.Protect, want.Protect}
	}
	if !kind.EqualACL(have.ChildACL, want.ChildACL) {
		c.ChildACL = &ACLDiff{have.ChildACL, want.ChildACL}
	}
	c.Revive = have.State != want.State && want.State == kind.StateActive
	if !kind.EqualACL(c.Before.ACL, c.After.ACL) {
		c.ACL = &ACLDiff{c.Before.ACL, c.After.ACL}
	}
	if c.Before.Live == nil || len(c.ForcesReplace) > 0 || c.Tombstone {
		return // a replacement makes all parts anew, and a tombstone has none
	}
	for _, part := range c.Before.Live.Parts {
		switch {
		case part.Absent:
			c.MissingParts = append(c.MissingParts, part.Name)
		// Contenders are created in the parts: their list is that of the node. One that alone
		// differs is shown as the node's; ACLSteps tells which of them have to be set.
		case c.ACL == nil && !kind.EqualACL(part.ACL, c.After.ACL):
			c.ACL = &ACLDiff{part.ACL, c.After.ACL}
		}
	}
}

// rewrites reports whether the node's data changes.
func (c *Change) rewrites() bool {
	return c.Tombstone || c.Importing != "" || len(c.Params) > 0 || c.ChildACL != nil || c.Protect != nil || c.Revive || c.PreviousAddr != ""
}

// drifted reports whether a node of ours is not what the last apply left. A
// masked access list cannot be compared with anything, so it is no evidence.
// Servers mask lists for whoever has no ADMIN on the node (FinalRequestProcessor, getACL). A
// comparison entry by entry can let that pass, as kind.EqualACL does; a hash cannot.
func (d *differ) drifted(n *Node) bool {
	_, e, ok := d.entry(n.Path)
	if !ok || slices.ContainsFunc(n.ACL, kind.ACL.Masked) {
		return false
	}
	h, err := n.hash()
	if acl, waits := d.pending[n.Path]; waits && err == nil && h != e.Hash {
		// The index says what the apply would have come to. What the list was before it says
		// nowhere, so a list that is still to be set is no evidence either.
		c := *n
		c.ACL = acl
		h, err = c.hash()
	}
	return err == nil && h != e.Hash
}

// order sorts into the order of execution. A path is a proper prefix of its
// descendants', so plain string order puts parents first.
func (d *differ) order() {
	slices.SortStableFunc(d.p.Changes, func(a, b Change) int {
		da, db := a.Action == Delete, b.Action == Delete
		switch {
		case da && db:
			return cmp.Compare(b.Path, a.Path)
		case da:
			return -1
		case db:
			return 1
		default:
			return cmp.Compare(a.Path, b.Path)
		}
	})
	// Errors first. Some are found in the order of a map (leftQuotas), which must not show.
	slices.SortStableFunc(d.p.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Code, b.Code))
	})
}

func usage(n *Node) *Usage {
	if n.Live == nil || !n.Live.Usage.Busy() {
		return nil
	}
	return n.Live.Usage
}

// withPayload copies the node and its payload, so that a plan can complete them
// without changing the tree it was given.
// The parameters are shared with it: nothing here writes into them.
func (n *Node) withPayload() *Node {
	c, p := *n, *n.Payload
	if p.State == "" {
		p.State = kind.StateActive
	}
	c.Payload = &p
	return &c
}
