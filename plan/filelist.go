package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// listTable has each access list of a plan once. Nodes refer to them by number: nearly
// all nodes of a large plan have one of a few, and with a copy for each node, each
// part and each payload, lists were most of a file and of what came back from it.
type listTable struct {
	lists [][]kind.ACL
	byKey map[string]int
	seen  map[listHead]int // what most nodes share in memory, too
}

// listHead tells slices apart without looking into them.
// Two that begin at one entry and are of one length hold the same, as lists are never changed.
// It is a shortcut: a list that is met at two places in memory is found by its key.
type listHead struct {
	first *kind.ACL
	n     int
}

// tableOf collects the lists of a plan.
//
// All of them before anything is written: the table stands in front of the changes that refer
// to it, and a reader needs it first. The order of the changes makes the numbers, so that equal
// plans give equal bytes.
func tableOf(p *Plan) *listTable {
	t := &listTable{byKey: map[string]int{}, seen: map[listHead]int{}}
	for i := range p.Changes {
		for _, n := range []*Node{p.Changes[i].Before, p.Changes[i].After} {
			if n == nil {
				continue
			}
			t.number(n.ACL)
			t.number(n.Payload.ChildACL)
			if n.Live != nil {
				for _, part := range n.Live.Parts {
					t.number(part.ACL)
				}
			}
		}
	}
	return t
}

// number is the place of a list in the table, which takes it in; nil for none.
// None and an empty one are two things in a payload: its contenders' list, see kind.Payload.
func (t *listTable) number(list []kind.ACL) *int {
	if list == nil {
		return nil
	}
	head := listHead{n: len(list)}
	if len(list) > 0 {
		head.first = &list[0]
	}
	n, met := t.seen[head]
	if !met {
		var key strings.Builder
		for _, a := range list {
			// Quoted, so that no scheme or id can pose as the end of one.
			key.WriteString(strconv.Itoa(int(a.Perms)) + strconv.Quote(a.Scheme) + strconv.Quote(a.ID))
		}
		if n, met = t.byKey[key.String()]; !met {
			n = len(t.lists)
			t.lists = append(t.lists, list)
			t.byKey[key.String()] = n
		}
		t.seen[head] = n
	}
	return &n
}

// formReader makes nodes of forms. What is the same in many of them is in memory once.
type formReader struct {
	stack  string
	lists  [][]kind.ACL
	origin string // of the node before
}

// list is the access list of a number.
func (r *formReader) list(n *int) ([]kind.ACL, error) {
	if n == nil {
		return nil, nil
	}
	if *n < 0 || *n >= len(r.lists) {
		return nil, fmt.Errorf("there is no access list %d", *n)
	}
	return r.lists[*n], nil
}

// payload decodes the payload of a node, whose child list stands in the table.
func (r *formReader) payload(f *nodeForm) (*kind.Payload, error) {
	p, err := kind.Decode(f.Payload)
	if err != nil {
		return nil, err
	}
	if f.ChildACL != nil {
		if p.ChildACL, err = r.list(f.ChildACL); err != nil {
			return nil, err
		}
	}
	// Equal texts are made one text here and below: each came out of the decoder as a copy of its
	// own, which a hundred thousand locks feel.
	if p.Owner.Addr == string(f.Addr) {
		p.Owner.Addr = string(f.Addr)
	}
	if p.Owner.Stack == r.stack {
		p.Owner.Stack = r.stack
	}
	for _, s := range []kind.State{kind.StateActive, kind.StateDraining, kind.StateMoved} {
		if p.State == s {
			p.State = s
		}
	}
	return p, nil
}

// parts are the structural children, under the names their kind has for them.
func (r *formReader) parts(k *kind.Kind, forms []partForm) ([]Part, error) {
	var out []Part
	if len(forms) > 0 {
		out = make([]Part, 0, len(forms))
	}
	for _, f := range forms {
		if err := kind.ValidateName(f.Name); err != nil {
			return nil, err
		}
		part := f.Part
		if i := slices.Index(k.Children, part.Name); i >= 0 {
			part.Name = k.Children[i]
		}
		var err error
		if part.ACL, err = r.list(f.ACL); err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

// sameOrigin shares the text with the node before: most are of one for_each.
func (r *formReader) sameOrigin(origin string) string {
	if origin == r.origin {
		return r.origin
	}
	r.origin = origin
	return origin
}
