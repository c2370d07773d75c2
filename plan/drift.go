package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Drift is a node that differs from what the last apply left.
type Drift struct {
	Addr Addr   `json:"address"`
	Path string `json:"path"`
	What string `json:"what"` // one of the constants below
	// Attributes are those that are not as declared; nil if the node is not declared, or as another type.
	Attributes []Attribute `json:"attributes,omitempty"`
}

// What happened to a drifted node.
const (
	DriftChanged = "changed"
	DriftDeleted = "deleted"
	DriftTaken   = "no longer ours" // somebody replaced its data
)

// Attribute is a property of a node that is not as declared, with both values as text.
type Attribute struct {
	Name     string `json:"name"`
	Declared string `json:"declared"`
	Found    string `json:"found"`
}

// drift lists the nodes that differ from what the last apply left. It compares what exists with the
// index, and does not look at the changes: a node may have drifted to what is declared now, or may no
// longer be declared.
func (d *selection) drift() {
	see := func(addr Addr, path, what string) {
		one := Drift{Addr: addr, Path: path, What: what}
		if what == DriftChanged {
			one.Attributes = differences(d.want[path], d.have[path])
		}
		d.p.Drifted = append(d.p.Drifted, one)
	}
	for path, have := range d.have {
		if d.ours(have) && d.drifted(have) {
			see(have.owned(), path, DriftChanged)
		}
	}
	for path := range d.indexed {
		key := d.indexed[path]
		switch have := d.have[path]; {
		case unreadable(have): // unknown, which is reported as a problem
		case have == nil:
			see(Addr(key), path, DriftDeleted)
		case !d.ours(have):
			see(Addr(key), path, DriftTaken)
		}
	}
	slices.SortFunc(d.p.Drifted, func(a, b Drift) int { return strings.Compare(a.Path, b.Path) })
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
	if a, b := want.ACL, have.ACL; !kind.EqualACL(a, b) {
		add("acl", "["+aclText(a)+"]", "["+aclText(b)+"]")
	}
	if a, b := want.Payload.ChildACL, have.Payload.ChildACL; !kind.EqualACL(a, b) {
		add("contender_acl", "["+aclText(a)+"]", "["+aclText(b)+"]")
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

// unsealed finds the nodes whose sum changes and nothing else in their data: those whose access list changes; those of a stack that
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
		none := !c.Before.sealed(key)
		asLeft := c.Before.Live != nil && c.Before.Live.AsLeft && kind.EqualACL(c.Before.ACL, c.After.ACL)
		if !none && (asLeft || (&Node{Path: c.Path, Payload: c.Before.Payload, ACL: c.After.ACL}).fits(key)) {
			continue
		}
		kept := !none && c.Action == NoOp && d.p.Targeted && d.drifted(c.Before)
		need := kind.PermWrite
		if c.Action == Update && !kind.EqualACL(c.Before.ACL, c.After.ACL) {
			need |= kind.PermAdmin
		}
		c.Unsealed = !kept && d.mayMark(c.Before.ACL, need)
	}
}

// mayMark reports whether a list gives one of the rights to somebody who applies. Whoever closes a node to them may leave entries
// in it that only servers can match. A hidden one counts where it is an administrator's and none of them plans.
func (d *sides) mayMark(list []kind.ACL, need kind.Perm) bool {
	admins := slices.Concat(d.intent.Access.administrators(), d.p.prior.Leaving)
	who, reads := admins, len(admins) > 0
	for _, id := range d.opts.Identities {
		who, reads = append(who, id.entry()), reads && !granted(admins, id.entry())
	}
	return len(who) == 0 || d.super() || slices.ContainsFunc(who, func(a kind.ACL) bool {
		sure, maybe := rightsOf(a, list)
		hidden := slices.ContainsFunc(list, func(b kind.ACL) bool { return hides(b, []kind.ACL{a}) && b.Perms&need != 0 })
		return sure&need != 0 || reads && hidden || len(admins) == 0 && maybe&need != 0
	})
}

// Seals reports whether an apply gives sums to nodes that have none, or none of the stack's key.
func (p *Plan) Seals() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Unsealed && !c.Before.sealed(p.prior.Key) })
}
