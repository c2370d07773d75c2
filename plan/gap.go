package plan

import (
	"cmp"
	"slices"
	"strings"
)

// Gap is a node of which a read knows only that the stack has it or had it.
type Gap struct {
	Path string
	// Addr and Type are as in the index; "" if it does not know the path.
	Addr Addr
	Type string
	// Trouble says why it cannot be read; "" if it is missing, or contains no declaration.
	Trouble Trouble
	Detail  string
}

// Gaps returns what is missing from a current tree, by path: nodes that cannot be read, and nodes of the index that do
// not exist. Without them the rest looks complete.
func (t *Tree) Gaps() []Gap {
	var out []Gap
	known := map[string]Gap{}
	if t.Index != nil {
		for key, e := range t.Index.Resources {
			g := Gap{Path: e.Path, Addr: addrOfKey(key, e.Path), Type: e.Type}
			known[e.Path] = g
			n := t.Find(e.Path)
			if strings.HasSuffix(key, movedFrom+e.Path) || e.Hash == "" { // a tombstone that somebody deleted, or the note of a quota
				continue
			}
			if n == nil || n.Live != nil && n.Live.Trouble == TroubleForeign {
				out = append(out, g)
			}
		}
	}
	for _, n := range t.Nodes {
		if n.Live != nil && n.Live.Trouble != "" && n.Live.Trouble != TroubleForeign {
			g := known[n.Path]
			g.Path, g.Trouble, g.Detail = n.Path, n.Live.Trouble, n.Live.Detail
			out = append(out, g)
		}
	}
	if t.Index == nil { // any node that cannot be read may be the stack's
		for _, path := range t.Unreadable {
			if t.Find(path) == nil {
				out = append(out, Gap{Path: path, Trouble: TroubleUnreadable})
			}
		}
	}
	slices.SortFunc(out, func(a, b Gap) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
