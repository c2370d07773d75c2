package config

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// intention is a moved, import or removed block as it is written.
type intention struct {
	from, to plan.Addr
}

// Such a block with the addresses of one instance of its module.
type (
	moveItem struct {
		plan.Move
		d     *decl
		place place // of To; without a decl when nothing is there
		lost  string
	}
	importItem struct {
		plan.Import
		d *decl
		s scope
	}
	removalItem struct {
		plan.Removal
		d *decl
	}
)

// intents are what the blocks of all modules intend.
type intents struct {
	moves    []*moveItem
	imports  []*importItem
	removals []*removalItem
	// moduleAddrs are the instances of modules, and the blocks that call them.
	moduleAddrs []struct{ instance, block plan.Addr }
	// barren are the blocks whose for_each has no element.
	barren []plan.Addr
}

// intend declares a block that has no name.
func (r *reading) intend(b *block, evaluate func(scope), attrs ...*attribute) *decl {
	d := r.declare(&decl{addr: b.typ.name, block: b, head: b.head, evaluate: evaluate}, attrs...)
	d.intent = &intention{}
	return d
}

func (r *reading) collectMoved(b *block) {
	from, to := b.arg("from"), b.arg("to")
	d := r.intend(b, scope.evaluateMoved)
	if from == nil || to == nil {
		d.broken = true // complete reports it
		return
	}
	var ok, okTo bool
	d.intent.from, ok = r.parseAddress(from)
	d.intent.to, okTo = r.parseAddress(to)
	d.broken = !ok || !okTo
}

func (s scope) evaluateMoved() {
	d := s.d
	if s.r.failed {
		return
	}
	in := d.intent
	if in.from.Type() != in.to.Type() {
		s.errorf(d.block.arg("to").expr.Range(), "Different types", "A %s cannot become a %s: delete one and declare the other.", in.from.Type(), in.to.Type())
		return
	}
	_, fromOne := in.from.Key()
	_, toOne := in.to.Key()
	item := &moveItem{Move: plan.Move{From: plan.Addr(s.prefix) + in.from, To: plan.Addr(s.prefix) + in.to, One: fromOne || toOne, Origin: s.where(d.head)}, d: d}
	// The lookup starts in the module of the block. checkTarget reports its result when all moves are known: another move
	// may go on from this one.
	item.place, item.lost, _ = s.lookup(in.to)
	s.moves = append(s.moves, item)
}

func (r *reading) collectRemoved(b *block) {
	d := r.intend(b, scope.evaluateRemoved)
	for _, l := range b.nested("lifecycle") {
		d.attrs = append(d.attrs, l.args...)
	}
	from := b.arg("from")
	if from == nil {
		d.broken = true
		return
	}
	var ok bool
	if d.intent.from, ok = r.parseAddress(from); !ok {
		d.broken = true
	}
}

func (s scope) evaluateRemoved() {
	d := s.d
	if s.r.failed {
		return
	}
	r := plan.Removal{From: plan.Addr(s.prefix) + d.intent.from, Destroy: true, Origin: s.where(d.head)}
	for _, l := range d.block.nested("lifecycle") {
		if v, ok := s.shown(l.arg("destroy"), cty.Bool); ok { // not yes: absent and null mean true here
			r.Destroy = v.True()
		}
	}
	s.removals = append(s.removals, &removalItem{r, d})
}

func (r *reading) collectImport(b *block) {
	to, path := b.arg("to"), b.arg("path")
	d := r.intend(b, scope.evaluateImport, path)
	if to == nil || path == nil {
		d.broken = true
		return
	}
	var ok bool
	if d.intent.to, ok = r.parseAddress(to); !ok {
		d.broken = true
		return
	}
	if d.intent.to.Type() == "module" {
		r.errorf(to.expr.Range(), "Invalid address", "A module is not a znode: name one of the nodes in it.")
		d.broken = true
	}
}

func (s scope) evaluateImport() {
	d := s.d
	if s.r.failed {
		return
	}
	a := d.block.arg("path")
	path, ok := s.text(a)
	if !ok {
		return
	}
	if err := kind.ValidatePath(path); err != nil {
		s.wrong(a, "Illegal path", plan.Sentence(err.Error()))
		return
	}
	if _, lost, found := s.lookup(d.intent.to); !found {
		if lost != "" {
			s.errorf(d.block.arg("to").expr.Range(), "Unknown address", "%s", lost)
		}
		s.fail()
		return
	}
	s.imports = append(s.imports, &importItem{plan.Import{To: d.intent.to, Path: path, Origin: s.where(d.head)}, d, s})
}
