package config

import (
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// intention is a moved, import or removed block as it is written.
type intention struct {
	from, to         address
	fromPath, toPath string // of a moved block that names paths
}

// Such a block with the addresses of one instance of its module.
type (
	moveItem struct {
		plan.Move
		d     *decl
		place place // of To; without a decl when nothing is there
		lost  string
	}
	pathMoveItem struct {
		plan.PathMove
		d *decl
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
	moves     []*moveItem
	pathMoves []*pathMoveItem
	imports   []*importItem
	removals  []*removalItem
	// moduleAddrs are the instances of modules, and the blocks that call them.
	moduleAddrs []struct{ instance, block plan.Addr }
}

// intend declares a block that has no name.
func (m *module) intend(b *block, evaluate func(*decl), attrs ...*attribute) *decl {
	d := m.declare(&decl{addr: b.typ.name, block: b, head: b.head, evaluate: evaluate}, attrs...)
	d.intent = &intention{}
	return d
}

func (m *module) collectMoved(b *block) {
	from, to := b.attrs["from"], b.attrs["to"]
	d := m.intend(b, m.evaluateMoved)
	if from == nil || to == nil {
		d.failed = true // complete reports it
		return
	}
	// A text that starts with a slash is no address, which tells them apart in JSON, where both are texts.
	fromPath, _ := constantText(from.expr)
	toPath, _ := constantText(to.expr)
	isPath := strings.HasPrefix(fromPath, "/")
	if isPath != strings.HasPrefix(toPath, "/") {
		m.errorf(b.head, "A path and an address", "from and to must both be addresses of declarations, or both be paths of znodes, which start with a slash. "+
			"A node whose name changes under the same address needs no moved block.")
		d.failed = true
		return
	}
	if isPath {
		d.intent.fromPath, d.intent.toPath = fromPath, toPath
		d.failed = !m.legalPath(from, fromPath) || !m.legalPath(to, toPath)
		return
	}
	var ok, okTo bool
	d.intent.from, ok = m.parseAddress(from, false)
	d.intent.to, okTo = m.parseAddress(to, false)
	d.failed = !ok || !okTo
}

func (m *module) legalPath(a *attribute, path string) bool {
	err := kind.ValidatePath(path)
	if err != nil {
		m.errorf(a.expr.Range(), "Illegal path", "%s", sentence(err.Error()))
	}
	return err == nil
}

func (m *module) evaluateMoved(d *decl) {
	if d.failed {
		return
	}
	in := d.intent
	if in.fromPath != "" {
		m.pathMoves = append(m.pathMoves, &pathMoveItem{plan.PathMove{From: in.fromPath, To: in.toPath, Origin: m.where(d.head)}, d})
		return
	}
	if in.from.last() != in.to.last() {
		m.errorf(d.block.attrs["to"].expr.Range(), "Different types", "A %s cannot become a %s: delete one and declare the other.", in.from.last(), in.to.last())
		return
	}
	one := in.from[len(in.from)-1].keyed || in.to[len(in.to)-1].keyed
	item := &moveItem{Move: plan.Move{From: plan.Addr(m.prefix + in.from.String()), To: plan.Addr(m.prefix + in.to.String()), One: one, Origin: m.where(d.head)}, d: d}
	// The lookup starts in the module of the block. checkTarget reports its result when all moves are known: another move
	// may go on from this one.
	item.place, item.lost, _ = m.lookup(in.to)
	m.moves = append(m.moves, item)
}

func (m *module) collectRemoved(b *block) {
	d := m.intend(b, m.evaluateRemoved)
	for _, l := range b.nested("lifecycle") {
		d.attrs = append(d.attrs, l.sorted()...)
	}
	from := b.attrs["from"]
	if from == nil {
		d.failed = true
		return
	}
	var ok bool
	if d.intent.from, ok = m.parseAddress(from, false); !ok {
		d.failed = true
	}
}

func (m *module) evaluateRemoved(d *decl) {
	if d.failed {
		return
	}
	s := m.scope(d)
	r := plan.Removal{From: plan.Addr(m.prefix + d.intent.from.String()), Destroy: true, Origin: m.where(d.head)}
	for _, l := range d.block.nested("lifecycle") {
		if v, ok := s.shown(l.attrs["destroy"], cty.Bool); ok { // not yes: absent and null mean true here
			r.Destroy = v.True()
		}
	}
	m.removals = append(m.removals, &removalItem{r, d})
}

// collectImport declares an import block. The keys of its address may be
// computed: with for_each they have to differ.
func (m *module) collectImport(b *block) {
	d := m.intend(b, m.evaluateImport)
	d.forEach = b.attrs["for_each"]
	for _, name := range []string{"for_each", "path"} {
		if a := b.attrs[name]; a != nil {
			d.attrs = append(d.attrs, a)
		}
	}
	to := b.attrs["to"]
	if to == nil || b.attrs["path"] == nil {
		d.failed = true
		return
	}
	var ok bool
	if d.intent.to, ok = m.parseAddress(to, true); !ok {
		d.failed = true
		return
	}
	for _, s := range d.intent.to {
		if s.computed != nil {
			d.attrs = append(d.attrs, s.computed)
		}
	}
	if d.intent.to.last() == "module" {
		m.errorf(to.expr.Range(), "Invalid address", "A module is not a znode: name one of the nodes in it.")
		d.failed = true
	}
}

func (m *module) evaluateImport(d *decl) {
	if d.failed {
		return
	}
	s := m.scope(d)
	if d.forEach == nil {
		m.importOne(d, s)
		return
	}
	elements, ok := m.forEach(d.forEach, s)
	if !ok {
		return
	}
	if !m.count(len(elements), d) {
		return
	}
	for _, el := range elements {
		m.importOne(d, s.each(el, "import["+strconv.Quote(el.key)+"]"))
	}
}

func (m *module) importOne(d *decl, s scope) {
	to := append(address(nil), d.intent.to...)
	for i, st := range to {
		if st.computed == nil {
			continue
		}
		key, ok := s.text(st.computed)
		if !ok {
			if !d.failed {
				s.wrong(st.computed, "Wrong type", "A key of an address cannot be null.")
			}
			return
		}
		to[i].key = key
	}
	a := d.block.attrs["path"]
	path, ok := s.text(a)
	if !ok {
		return
	}
	if err := kind.ValidatePath(path); err != nil {
		s.wrong(a, "Illegal path", sentence(err.Error()))
		return
	}
	if _, lost, found := m.lookup(to); !found {
		if lost != "" {
			m.errorf(d.block.attrs["to"].expr.Range(), "Unknown address", "%s", lost)
		}
		d.failed = true
		return
	}
	m.imports = append(m.imports, &importItem{plan.Import{To: plan.Addr(to.String()), Path: path, Origin: m.where(d.head)}, d, s})
}
