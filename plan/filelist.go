package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// listTable contains each access list of a plan once. Nodes refer to them by number. Nearly all
// nodes of a large plan have one of a few lists; with a copy for each node, part and payload, lists
// were most of a file and of the memory that it took when read.
type listTable struct {
	lists [][]kind.ACL
	byKey map[string]int
	seen  map[listHead]int // a shortcut: most nodes share their list in memory too
}

// listHead identifies a slice without looking into it. Two slices that begin at the same entry and
// have the same length are equal, because lists are never changed. It is a shortcut: a list at two
// places in memory is found by its key.
type listHead struct {
	first *kind.ACL
	n     int
}

// tableOf collects the lists of a plan.
//
// It collects all of them before anything is written: the table comes before the changes that refer
// to it, because a reader needs it first. The numbers follow from the order of the changes, so that
// equal plans give equal bytes.
func tableOf(p *Plan) *listTable {
	t := &listTable{byKey: map[string]int{}, seen: map[listHead]int{}}
	for c := range p.Each() {
		for _, n := range []*Node{c.Before, c.After} {
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

// number returns the number of a list in the table, adding it if necessary; nil for no list. For the
// contenders' list in a payload no list and an empty one differ, see kind.Payload.
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
			// Quoted, so that the content of a scheme or id cannot be taken for its end.
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

// formReader turns forms into nodes. What many of them have in common is in memory once.
type formReader struct {
	stack  string
	lists  [][]kind.ACL
	origin string // of the node before
}

// list returns the access list with this number.
func (r *formReader) list(n *int) ([]kind.ACL, error) {
	if n == nil {
		return nil, nil
	}
	if *n < 0 || *n >= len(r.lists) {
		return nil, fmt.Errorf("there is no access list %d", *n)
	}
	return r.lists[*n], nil
}

// payload decodes the payload of a node, whose contenders' list is in the table.
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
	// Here and below, equal strings are made to share memory: each came out of the decoder as a
	// copy, which matters with a hundred thousand locks.
	if p.Owner.Addr == string(f.Addr) {
		p.Owner.Addr = string(f.Addr)
	}
	if p.Owner.Stack == r.stack {
		p.Owner.Stack = r.stack
	}
	return p, nil
}

// parts returns the structural children. Their names share memory with those of their kind.
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

// sameOrigin shares the string with the previous node, if it is equal: most come from one for_each.
func (r *formReader) sameOrigin(origin string) string {
	if origin == r.origin {
		return r.origin
	}
	r.origin = origin
	return origin
}
