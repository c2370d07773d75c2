package config

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Such a block with the addresses of one instance of its module.
type (
	moveItem struct {
		plan.Move
		d     *static.Decl
		place static.Place // of To; without a decl when nothing is there
		lost  string
	}
	importItem struct {
		plan.Import
		d *static.Decl
		s scope
	}
	removalItem struct {
		plan.Removal
		d *static.Decl
	}
)

// intents are what the blocks of all modules intend.
type intents struct {
	moves    []*moveItem
	imports  []*importItem
	removals []*removalItem
	// moduleAddrs are the instances of modules, and the blocks that call them.
	moduleAddrs []struct{ instance, block plan.Addr }
}

func (s scope) evaluateMoved() {
	d := s.d
	if s.r.failed {
		return
	}
	in := d.Intent
	if in.From.Type() != in.To.Type() {
		s.Errorf(d.Block.Arg("to").Expr.Range(), "Different types", "A %s cannot become a %s: delete one and declare the other.", in.From.Type(), in.To.Type())
		return
	}
	_, fromOne := in.From.Key()
	_, toOne := in.To.Key()
	item := &moveItem{Move: plan.Move{From: plan.Addr(s.prefix) + in.From, To: plan.Addr(s.prefix) + in.To, One: fromOne || toOne, Origin: s.Where(d.Head)}, d: d}
	// The lookup starts in the module of the block. checkTarget reports its result when all moves are known: another move
	// may go on from this one.
	item.place, item.lost, _ = s.Lookup(in.To)
	s.moves = append(s.moves, item)
}

func (s scope) evaluateRemoved() {
	d := s.d
	if s.r.failed {
		return
	}
	r := plan.Removal{From: plan.Addr(s.prefix) + d.Intent.From, Destroy: true, Origin: s.Where(d.Head)}
	for _, l := range d.Block.Nested("lifecycle") {
		if v, ok := s.shown(l.Arg("destroy"), cty.Bool); ok { // not yes: absent and null mean true here
			r.Destroy = v.True()
		}
	}
	s.removals = append(s.removals, &removalItem{r, d})
}

func (s scope) evaluateImport() {
	d := s.d
	if s.r.failed {
		return
	}
	a := d.Block.Arg("path")
	path, ok := s.text(a)
	if !ok {
		return
	}
	if err := kind.ValidatePath(path); err != nil {
		s.wrong(a, "Illegal path", plan.Sentence(err.Error()))
		return
	}
	if _, lost, found := s.Lookup(d.Intent.To); !found {
		if lost != "" {
			s.Errorf(d.Block.Arg("to").Expr.Range(), "Unknown address", "%s", lost)
		}
		s.fail()
		return
	}
	s.imports = append(s.imports, &importItem{plan.Import{To: d.Intent.To, Path: path, Origin: s.Where(d.Head)}, d, s})
}
