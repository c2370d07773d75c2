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
