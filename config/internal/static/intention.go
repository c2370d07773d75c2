package static

import (
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
)

// intention is a moved, import or removed block as it is written.
type Intention struct {
	From, To plan.Addr
}

// intend declares a block that has no name.
func (r *reading) intend(b *syntax.Block, attrs ...*syntax.Attribute) *Decl {
	d := r.declare(&Decl{Addr: b.Type.Name, Block: b, Head: b.Head}, attrs...)
	d.Intent = &Intention{}
	return d
}

func (r *reading) collectMoved(b *syntax.Block) {
	from, to := b.Arg("from"), b.Arg("to")
	d := r.intend(b)
	if from == nil || to == nil {
		d.Broken = true // complete reports it
		return
	}
	var ok, okTo bool
	d.Intent.From, ok = ParseAddress(r.Report, from)
	d.Intent.To, okTo = ParseAddress(r.Report, to)
	d.Broken = !ok || !okTo
}

func (r *reading) collectRemoved(b *syntax.Block) {
	d := r.intend(b)
	for _, l := range b.Nested("lifecycle") {
		d.Attrs = append(d.Attrs, l.Args...)
	}
	from := b.Arg("from")
	if from == nil {
		d.Broken = true
		return
	}
	var ok bool
	if d.Intent.From, ok = ParseAddress(r.Report, from); !ok {
		d.Broken = true
	}
}

func (r *reading) collectImport(b *syntax.Block) {
	to, path := b.Arg("to"), b.Arg("path")
	d := r.intend(b, path)
	if to == nil || path == nil {
		d.Broken = true
		return
	}
	var ok bool
	if d.Intent.To, ok = ParseAddress(r.Report, to); !ok {
		d.Broken = true
		return
	}
	if d.Intent.To.Type() == "module" {
		r.Errorf(to.Expr.Range(), "Invalid address", "A module is not a znode: name one of the nodes in it.")
		d.Broken = true
	}
}
