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
	// Attributes are those that changed; nil when that cannot be determined.
	Attributes []Attribute `json:"attributes,omitempty"`
}

// What happened to a drifted node.
const (
	DriftChanged = "changed"
	DriftDeleted = "deleted"
	DriftTaken   = "no longer ours" // somebody replaced its data
)

// Attribute is a property of a node that was changed by hand, with its values as text.
type Attribute struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// drift lists the nodes that differ from what the last apply left. It compares what exists with the
// index, and does not look at the changes: a node may have drifted to what is declared now, or may no
// longer be declared.
func (d *selection) drift() {
	see := func(addr Addr, path, what string) {
		if !d.p.RefreshOnly || !d.outside[path] {
			one := Drift{Addr: addr, Path: path, What: what}
			if what == DriftChanged {
				one.Attributes = d.changedByHand(d.have[path])
			}
			d.p.Drifted = append(d.p.Drifted, one)
		}
	}
	for path, have := range d.have {
		if d.ours(have) && d.drifted(have) {
			see(have.owned(), path, DriftChanged)
		}
	}
	for path := range d.indexed {
		key, e, _ := d.entry(path)
		switch have := d.have[path]; {
		case e.Hash == "": // noted already, see keepNoted
		case unreadable(have): // unknown, which is reported as a problem
		case have == nil:
			see(Addr(key), path, DriftDeleted)
		case !d.ours(have):
			see(Addr(key), path, DriftTaken)
		}
	}
	slices.SortFunc(d.p.Drifted, func(a, b Drift) int { return strings.Compare(a.Path, b.Path) })
}

// undone is an attribute with a function that restores what is declared.
type undone struct {
	Attribute
	undo func(*Node) error
}

// maxUndone bounds the number of attributes whose subsets are tried.
const maxUndone = 6

// changedByHand returns the attributes that differ from what the last apply left; nil when that
// cannot be determined.
//
// The index keeps only a hash of a node. But what is declared is usually what was applied. So
// each subset of the attributes that differ from the declaration is undone in turn, until the
// hash matches: then exactly those attributes were changed by hand, from these values. The others
// differ because the configuration changed.
func (d *sides) changedByHand(have *Node) []Attribute {
	want := d.want[have.Path]
	_, e, _ := d.entry(have.Path)
	if want == nil || want.Kind() != have.Kind() {
		return nil
	}
	all := differences(want, have)
	if len(all) > maxUndone {
		return nil
	}
	data, err := have.Payload.Encode()
	for set := 1; set < 1<<len(all) && err == nil; set++ {
		n := &Node{Path: have.Path, ACL: have.ACL}
		n.Payload, err = kind.Decode(data)
		var out []Attribute
		for i := range all {
			if set&(1<<i) != 0 && err == nil {
				err = all[i].undo(n)
				out = append(out, all[i].Attribute)
			}
		}
		if err != nil {
			return nil
		}
		if h, err := n.hash(); err == nil && h == e.Hash {
			return out
		}
	}
	return nil
}

func differences(want, have *Node) (out []undone) {
	add := func(name, before, after string, undo func(*Node) error) {
		out = append(out, undone{Attribute{name, before, after}, undo})
	}
	for _, p := range kind.Diff(want.Payload.Params, have.Payload.Params) {
		add(p.Name, valueText(p.Before), valueText(p.After), func(n *Node) error {
			for _, f := range n.Payload.Params.Fields() {
				if f.Name == p.Name {
					return f.Set(p.Before)
				}
			}
			return fmt.Errorf("plan: no parameter %s", p.Name)
		})
	}
	if a, b := want.ACL, have.ACL; !kind.EqualACL(a, b) {
		add("acl", "["+aclText(a)+"]", "["+aclText(b)+"]", func(n *Node) error { n.ACL = a; return nil })
	}
	if a, b := want.Payload.ChildACL, have.Payload.ChildACL; !kind.EqualACL(a, b) {
		add("contender_acl", "["+aclText(a)+"]", "["+aclText(b)+"]", func(n *Node) error { n.Payload.ChildACL = a; return nil })
	}
	if a, b := want.Payload.Protect, have.Payload.Protect; a != b {
		add("prevent_destroy", valueText(a), valueText(b), func(n *Node) error { n.Payload.Protect = a; return nil })
	}
	return out
}

func valueText(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}
