package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Drift is a node that is not as the last apply left it.
type Drift struct {
	Addr Addr   `json:"address"`
	Path string `json:"path"`
	// Deleted: it is declared, the last apply left it, and it is gone.
	Deleted bool `json:"deleted,omitempty"`
	// Attributes are those that are not as declared; nil if the node is not declared, or as another type.
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Action is what was done to the node.
func (d Drift) Action() Action {
	if d.Deleted {
		return Delete
	}
	return Update
}

// Attribute is a property of a node that is not as declared, with both values as text.
type Attribute struct {
	Name     string `json:"name"`
	Declared string `json:"declared"`
	Found    string `json:"found"`
}

// drift lists the nodes that differ from what the last apply left. It does not look at the changes: a node may have drifted to
// what is declared now, or may no longer be declared. A node that has lost its mark is not among them: nothing says what it was. Nor is
// one that is gone and no longer declared.
func (d *selection) drift() {
	for _, have := range d.current.Nodes {
		if d.ours(have) && d.drifted(have) {
			d.p.Drifted = append(d.p.Drifted, Drift{Addr: have.owned(), Path: have.Path, Attributes: differences(d.want[have.Path], have)})
		}
	}
	for path, gone := range d.gone {
		if gone {
			d.p.Drifted = append(d.p.Drifted, Drift{Addr: d.want[path].Addr, Path: path, Deleted: true})
		}
	}
	slices.SortFunc(d.p.Drifted, func(a, b Drift) int { return cmp.Compare(a.Path, b.Path) })
}

// differences are the attributes of a node that are not as declared. What was declared when it was applied last is stored nowhere;
// the declaration of now is what this plan restores.
func differences(want, have *Node) (out []Attribute) {
	if want == nil || want.Kind() != have.Kind() {
		return nil
	}
	add := func(name, declared, found string) { out = append(out, Attribute{name, declared, found}) }
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

// unsealed finds the nodes whose sum changes and nothing else that was declared: those whose access list changes; those of a stack that
// has no sums yet, or has another key; those that were changed by hand to what is declared, which a plan of a part leaves noted as
// they were; and those of which an interrupted apply noted a list that nobody wants any more.
//
// A list that is hidden from us has no sum. Where none of those who apply may write, the mark stays as it is: one such node must not
// have the whole transaction refused. To a node whose list changes they may give themselves that right before.
func (d *selection) unsealed() {
	key := d.p.prior.Key
	for c := range d.p.Each() {
		writes := c.Action == Update && c.rewrites() || c.renamed()
		if c.Action != NoOp && c.Action != Update || writes || !d.ours(c.Before) || c.Hides() {
			continue
		}
		none := !record.Sealed(key, c.Before.Payload)
		asLeft := c.Before.Live != nil && c.Before.Live.AsLeft && c.Before.ACL.Equal(c.After.ACL)
		if !none && (asLeft || record.Fits(key, c.Path, c.Before.Payload, c.After.ACL)) {
			continue
		}
		kept := !none && c.Action == NoOp && d.p.Targeted && d.drifted(c.Before)
		need := kind.PermWrite
		if c.Action == Update && !c.Before.ACL.Equal(c.After.ACL) {
			need |= kind.PermAdmin
		}
		c.Unsealed = !kept && d.mayMark(c.Before.ACL, need)
	}
}

// mayMark reports whether a list gives one of the rights to somebody who applies. Whoever closes a node to them may leave entries
// in it that only servers can match. A hidden one counts where it is an administrator's and none of them plans.
func (d *sides) mayMark(list kind.List, need kind.Perm) bool {
	admins := d.appliers()
	who, reads := admins, len(admins) > 0
	for _, a := range d.us() {
		who, reads = append(who, a), reads && !granted(admins, a)
	}
	return len(who) == 0 || d.super() || slices.ContainsFunc(who, func(a kind.ACL) bool {
		sure, maybe := list.Rights(a)
		_, hidden := list.Of(a)
		return sure&need != 0 || len(admins) == 0 && maybe&need != 0 ||
			reads && slices.ContainsFunc(hidden, func(b kind.ACL) bool { return b.Perms&need != 0 })
	})
}

// Seals reports whether an apply gives sums to nodes that have none, or none of the stack's key.
func (p *Plan) Seals() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Unsealed && !record.Sealed(p.prior.Key, c.Before.Payload) })
}
