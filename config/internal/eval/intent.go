package eval

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// These are moved, import and removed blocks, with the addresses of one instance of their module.
type (
	Move struct {
		plan.Move
		Decl  *static.Decl
		Place static.Place // of To; without a decl when nothing is there
		Lost  string
	}
	Import struct {
		plan.Import
		Decl *static.Decl
		s    scope
	}
	Removal struct {
		plan.Removal
		Decl *static.Decl
	}
)

// Wrong reports an error in the path of an import.
func (i *Import) Wrong(summary, detail string) {
	i.s.reportWrong(i.Decl.Block.Arg("path"), summary, detail)
}

// intents are the intents of the blocks of all modules.
type intents struct {
	Moves    []*Move
	Imports  []*Import
	Removals []*Removal
	// ModuleAddrs are the instances of modules, and the blocks that call them.
	ModuleAddrs []struct{ Instance, Block plan.Addr }
	// Barren are the blocks whose for_each has no element.
	Barren []plan.Addr
}

func evaluateMoved(s scope) {
	d := s.d
	if s.r.Failed {
		return
	}
	in := d.Intent
	if in.From.Type() != in.To.Type() {
		s.in.Errorf(d.Block.Arg("to").Expr.Range(), "Different types", "A %s cannot become a %s: delete one and declare the other.", in.From.Type(), in.To.Type())
		return
	}
	_, fromOne := in.From.Key()
	_, toOne := in.To.Key()
	item := &Move{Move: plan.Move{From: plan.Addr(s.in.Prefix) + in.From, To: plan.Addr(s.in.Prefix) + in.To, One: fromOne || toOne, Origin: s.in.Where(d.Head)}, Decl: d}
	// The lookup starts in the module of the block. checkTarget reports its result when all moves are known: another move
	// may go on from this one.
	item.Place, item.Lost, _ = s.in.Declared.Lookup(in.To)
	s.in.All.Moves = append(s.in.All.Moves, item)
}

func evaluateRemoved(s scope) {
	d := s.d
	if s.r.Failed {
		return
	}
	r := plan.Removal{From: plan.Addr(s.in.Prefix) + d.Intent.From, Destroy: true, Origin: s.in.Where(d.Head)}
	for _, l := range d.Block.Nested("lifecycle") {
		if v, ok := s.publicValue(l.Arg("destroy"), cty.Bool); ok { // absent and null mean true here
			r.Destroy = v.True()
		}
	}
	s.in.All.Removals = append(s.in.All.Removals, &Removal{r, d})
}

func evaluateImport(s scope) {
	d := s.d
	if s.r.Failed {
		return
	}
	a := d.Block.Arg("path")
	path, ok := s.text(a)
	if !ok {
		return
	}
	if err := kind.ValidatePath(path); err != nil {
		s.reportWrong(a, "Illegal path", explain.Sentence(err.Error()))
		return
	}
	if _, lost, found := s.in.Declared.Lookup(d.Intent.To); !found {
		if lost != "" {
			s.in.Errorf(d.Block.Arg("to").Expr.Range(), "Unknown address", "%s", lost)
		}
		s.fail()
		return
	}
	s.in.All.Imports = append(s.in.All.Imports, &Import{plan.Import{To: d.Intent.To, Path: path, Origin: s.in.Where(d.Head)}, d, s})
}
