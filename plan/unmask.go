package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Servers show the hashes of digests in an access list only to its administrators
// (FinalRequestProcessor, getACL). A reader has to plan the same changes, and a user's new password is
// a change. The lists that the last apply left can be found nevertheless: the data of locks and of the
// record contains hashes, and the sum of each node proves which are the right ones.

// digests are ids of the scheme digest, by user.
type digests map[string][]string

func (ds digests) add(list kind.List) {
	for _, a := range list {
		user, _, _ := strings.Cut(a.ID, ":")
		if a.Scheme == "digest" && !masked(a) && !slices.Contains(ds[user], a.ID) {
			ds[user] = append(ds[user], a.ID)
		}
	}
}

// reveal replaces hidden ids in a list by known ones: for each user, from the first source that knows as many as are hidden.
func reveal(list kind.List, known ...digests) kind.List {
	hidden := map[string]int{}
	for _, a := range list {
		if masked(a) {
			hidden[a.ID]++
		}
	}
	if len(hidden) == 0 {
		return list
	}
	out, next := slices.Clone(list), map[string]int{}
	for i, a := range out {
		user, _, _ := strings.Cut(a.ID, ":")
		at := slices.IndexFunc(known, func(ds digests) bool { return len(ds[user]) == hidden[a.ID] })
		if masked(a) && at >= 0 {
			out[i].ID = known[at][user][next[user]]
			next[user]++
		}
	}
	return out
}

// revealAs replaces hidden ids in a list without proof: for a user of whom another list has the same number of entries with
// the same rights. The rights decide which entry has which id, or it makes no difference.
func revealAs(list, as kind.List) kind.List {
	byRights := func(a, b *kind.ACL) int { return cmp.Compare(a.Perms, b.Perms) }
	out, known := slices.Clone(list), as.Normalize()
	for _, a := range list {
		if !masked(a) {
			continue
		}
		user := strings.TrimSuffix(a.ID, "x") // with the colon
		hidden := entriesOf(out, user)
		ids := entriesOf(known, user)
		slices.SortStableFunc(hidden, byRights)
		slices.SortStableFunc(ids, byRights)
		if !slices.EqualFunc(hidden, ids, func(a, b *kind.ACL) bool { return a.Perms == b.Perms }) {
			continue
		}
		for i, a := range hidden {
			a.ID = ids[i].ID
		}
	}
	return out
}

// entriesOf returns the entries of a user, "name:".
func entriesOf(list kind.List, user string) (out []*kind.ACL) {
	for i := range list {
		if list[i].Scheme == "digest" && strings.HasPrefix(list[i].ID, user) {
			out = append(out, &list[i])
		}
	}
	return out
}

// unmask completes the current access lists of the stack's nodes if their sums prove them. Those of the tool's own nodes have
// none, see [sides.shown].
func (d *sides) unmask() {
	x := d.current.Index
	if x == nil || !slices.ContainsFunc(d.current.Nodes, func(n *Node) bool { return n.ACL.Masked() }) {
		return
	}
	had, noted, declared := digests{}, digests{}, digests{}
	noted.add(d.p.prior.between())
	for _, n := range d.current.Nodes {
		if d.ours(n) {
			had.add(n.Payload.ChildACL)
		}
	}
	for _, n := range d.desired {
		declared.add(n.ACL)
	}
	current := *d.current
	current.Nodes = slices.Clone(current.Nodes)
	d.current = &current
	var doubtful []*Node
	for i, n := range current.Nodes {
		if !d.ours(n) || !n.ACL.Masked() {
			continue
		}
		list := reveal(n.ACL, had, declared, noted)
		if want := d.want[n.Path]; want != nil && n.ACL.Equal(want.ACL) && !d.proven(n, list) {
			if list = want.ACL; !d.proven(n, list) {
				doubtful = append(doubtful, n)
			}
		}
		if d.proven(n, list) {
			current.Nodes[i] = withList(n, list)
			d.have[n.Path] = withList(d.have[n.Path], list)
		}
	}
	if len(doubtful) > 0 {
		d.problem(Warning, ProblemAccess, &Node{Addr: doubtful[0].Addr, Path: doubtful[0].Path}, "Access lists cannot be compared",
			fmt.Sprintf("The servers show the hashes of digests only to administrators, so it is not known whether the access lists of %s%s are as declared: "+
				"they differ from what the last apply left. Run the plan with the credentials of an administrator.", doubtful[0].Addr, andMore(len(doubtful)-1)))
	}
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// proven reports whether the last apply left the node with this list.
func (d *sides) proven(n *Node, list kind.List) bool {
	return len(d.awaited(n)) == 0 && (&Node{Path: n.Path, Payload: n.Payload, ACL: list}).fits(d.p.prior.Key)
}

// withList returns a copy of the node with another access list, also for those of its parts that had what followed from the former one.
func withList(n *Node, list kind.List) *Node {
	c := *n
	if c.ACL = list; n.Live == nil {
		return &c
	}
	live := *n.Live
	c.Live = &live
	live.Parts = slices.Clone(live.Parts)
	for i, part := range live.Parts {
		if slices.Equal(part.ACL, n.Kind().PartACL(part.Name, n.ACL)) {
			live.Parts[i].ACL = n.Kind().PartACL(part.Name, list)
		}
	}
	return &c
}
