package plan

import (
	"cmp"
	"slices"
	"strings"
)

// Gap is a node of which a read knows that the stack has it, or had, and no more.
type Gap struct {
	Path string
	// Addr and Type are what the index says of it; "" where it does not know the path.
	Addr Addr
	Type string
	// Trouble says why it cannot be read. "": it is missing, or what stands there declares nothing.
	Trouble Trouble
	Detail  string
}

// Gaps are what is missing in a current tree, by path: nodes that cannot be read, and nodes of the index that are not
// there. Without them the rest looks as if it were all.
func (t *Tree) Gaps() []Gap {
	var out []Gap
	known := map[string]Gap{}
	if t.Index != nil {
		for key, e := range t.Index.Resources {
			g := Gap{Path: e.Path, Addr: addrOfKey(key, e.Path), Type: e.Type}
			known[e.Path] = g
			n := t.Find(e.Path)
			if strings.HasSuffix(key, movedFrom+e.Path) || e.Hash == "" { // a note that somebody took away, and one of a quota
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
	if t.Index == nil { // whatever cannot be read may be the stack's
		for _, path := range t.Unreadable {
			if t.Find(path) == nil {
				out = append(out, Gap{Path: path, Trouble: TroubleUnreadable})
			}
		}
	}
	slices.SortFunc(out, func(a, b Gap) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
