package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// listDrift lists the nodes that differ from what the last apply left. It does not look at the changes: a node may have drifted to
// what is declared now, or may no longer be declared. A node that has lost its mark is not among them: nothing says what it was. Nor is
// one that is gone and no longer declared.
func listDrift(p *plan.Plan, s *access.Sides) {
	for _, have := range s.Current.Nodes {
		if access.IsOurs(p, have) && drifted(p, s, have) {
			p.Drifted = append(p.Drifted, plan.Drift{Addr: have.Owned(), Path: have.Path, Attributes: differences(s.Want[have.Path], have)})
		}
	}
	for path, gone := range s.Gone {
		if gone {
			p.Drifted = append(p.Drifted, plan.Drift{Addr: s.Want[path].Addr, Path: path, Deleted: true})
		}
	}
	slices.SortFunc(p.Drifted, func(a, b plan.Drift) int { return cmp.Compare(a.Path, b.Path) })
}

// differences are the attributes of a node that are not as declared. What was declared when it was applied last is stored nowhere;
// the declaration of now is what this plan restores.
func differences(want, have *plan.Node) (out []plan.Attribute) {
	if want == nil || want.Kind() != have.Kind() {
		return nil
	}
	add := func(name, declared, found string) {
		out = append(out, plan.Attribute{Name: name, Declared: declared, Found: found})
	}
	for _, p := range kind.Diff(want.Payload.Params, have.Payload.Params) {
		add(p.Name, valueText(p.Before), valueText(p.After))
	}
	if a, b := want.ACL, have.ACL; !a.Equal(b) {
		add("acl", "["+a.String()+"]", "["+b.String()+"]")
	}
	if a, b := want.Payload.ChildACL, have.Payload.ChildACL; !a.Equal(b) {
		add("contender_acl", "["+a.String()+"]", "["+b.String()+"]")
	}
	if a, b := want.Payload.Protect, have.Payload.Protect; a != b {
		add("prevent_destroy", valueText(a), valueText(b))
	}
	return out
}

func valueText(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// findUnsealed finds the nodes whose sum changes and nothing else that was declared: those whose access list changes; those of a stack that
// has no sums yet, or has another key; those that were changed by hand to what is declared, which a plan of a part leaves noted as
// they were; and those of which an interrupted apply noted a list that nobody wants any more.
//
// A list that is hidden from us has no sum. Where none of those who apply may write, the mark stays as it is: one such node must not
// have the whole transaction refused. To a node whose list changes they may give themselves that right before.
func findUnsealed(p *plan.Plan, s *access.Sides) {
	key := p.Before.Key
	for c := range p.Each() {
		writes := c.Action == plan.Update && c.Rewrites() || c.Renamed()
		if c.Action != plan.NoOp && c.Action != plan.Update || writes || !access.IsOurs(p, c.Before) || c.Hides() {
			continue
		}
		none := !record.Sealed(key, c.Before.Payload)
		asLeft := c.Before.Live != nil && c.Before.Live.AsLeft && c.Before.ACL.Equal(c.After.ACL)
		if !none && (asLeft || record.Fits(key, c.Path, c.Before.Payload, c.After.ACL)) {
			continue
		}
		kept := !none && c.Action == plan.NoOp && p.Targeted && drifted(p, s, c.Before)
		need := kind.PermWrite
		if c.Action == plan.Update && !c.Before.ACL.Equal(c.After.ACL) {
			need |= kind.PermAdmin
		}
		c.Unsealed = !kept && mayMark(p, s, c.Before.ACL, need)
	}
}

// mayMark reports whether a list gives one of the rights to somebody who applies. Whoever closes a node to them may leave entries
// in it that only servers can match. A hidden one counts where it is an administrator's and none of them plans.
func mayMark(p *plan.Plan, s *access.Sides, list kind.List, need kind.Perm) bool {
	admins := access.Appliers(p, s)
	who, reads := admins, len(admins) > 0
	for _, a := range access.Us(s) {
		who, reads = append(who, a), reads && !access.Granted(admins, a)
	}
	return len(who) == 0 || access.IsSuper(s) || slices.ContainsFunc(who, func(a kind.ACL) bool {
		sure, maybe := list.Rights(a)
		_, hidden := list.Of(a)
		return sure&need != 0 || len(admins) == 0 && maybe&need != 0 ||
			reads && slices.ContainsFunc(hidden, func(b kind.ACL) bool { return b.Perms&need != 0 })
	})
}

// findGone finds the declared nodes that the last apply left and that are gone. Nodes that may or may not be among those that it left
// are sought with them: a mark may be lost, hidden, changed or copied.
func findGone(p *plan.Plan, s *access.Sides) {
	s.Gone = map[string]bool{}
	if s.Current.Index == nil {
		return
	}
	left := record.RollOf(s.Current.Index.Nodes)
	if left == nil {
		return
	}
	var sought []string
	for _, n := range s.Current.Nodes {
		if access.IsOurs(p, n) && !drifted(p, s, n) {
			left.Toggle(n.Path)
		} else {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range s.Current.Unreadable {
		if s.Have[path] == nil {
			sought = append(sought, path)
		}
	}
	for _, n := range s.Desired {
		if s.Have[n.Path] == nil {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range left.Chosen(sought) {
		s.Gone[path] = s.Have[path] == nil && s.Want[path] != nil
	}
}

// noteLeft is the roll before the first transaction: what is there, and what is missing and may stay so.
func noteLeft(p *plan.Plan, s *access.Sides) {
	p.Before.Left = record.NewRoll()
	for _, n := range s.Current.Nodes {
		if access.IsOurs(p, n) {
			p.Before.Left.Toggle(n.Path)
		}
	}
	for path, gone := range s.Gone {
		if gone {
			p.Before.Left.Toggle(path)
		}
	}
}
