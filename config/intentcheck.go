package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// declared is everything that has an address or a path, for what intents say
// about it.
type declared struct {
	addrs map[plan.Addr]*instance // nodes, their blocks, modules (nil) and their blocks (nil)
	nodes map[plan.Addr]*instance // nodes alone
	exact map[plan.Addr]bool      // nodes and modules, without the blocks of several
	// blocks are the addresses without any keys.
	blocks map[plan.Addr]bool
	paths  map[*ensembleBlock]map[string]*instance
	// sound: nothing was wrong before, so that what is missing is missing for its
	// own sake.
	sound bool
}

func declaredBy(e *evaluation) *declared {
	d := &declared{addrs: map[plan.Addr]*instance{}, nodes: map[plan.Addr]*instance{}, exact: map[plan.Addr]bool{}, blocks: map[plan.Addr]bool{}, paths: map[*ensembleBlock]map[string]*instance{}}
	for _, i := range e.instances {
		d.nodes[i.addr], d.addrs[i.addr], d.exact[i.addr] = i, i, true
		if i.key != "" || i.decl.Attr("for_each") != nil {
			d.addrs[i.addr.Base()] = i
		}
		if d.paths[i.ensemble] == nil {
			d.paths[i.ensemble] = map[string]*instance{}
		}
		d.paths[i.ensemble][i.path] = i
	}
	for _, c := range e.moduleAddrs {
		d.addrs[c.instance], d.addrs[c.block], d.exact[c.instance] = nil, nil, true
	}
	for addr := range d.addrs {
		d.blocks[addr.Block()] = true
	}
	return d
}

// checkIntents is about what only shows when every node is known.
func checkIntents(e *evaluation) {
	if len(e.moves)+len(e.imports)+len(e.removals) == 0 {
		return
	}
	have := declaredBy(e)
	have.sound = !e.Diags.HasErrors()
	// What is removed may have moved before: removals make sense only with a sound chain of moves.
	if checkMoves(e, have) {
		checkRemovals(e, have)
	}
	checkImports(e, have)
}

// once reports what starts or ends where another one of its kind does.
type once struct {
	*evaluation
	from, to map[string]*static.Decl
}

func (o once) claim(from, to string, d *static.Decl) bool {
	if first := o.from[from]; first != nil {
		o.Errorf(d.Head, "Moved twice", "The block at %s already moves %s. Delete one of the two blocks.", o.Where(first.Head), from)
		return false
	}
	if first := o.to[to]; first != nil {
		o.Errorf(d.Head, "Moved twice", "The block at %s already moves something to %s. Delete one of the two blocks.", o.Where(first.Head), to)
		return false
	}
	o.from[from], o.to[to] = d, d
	return true
}

// checkMoves returns false when following the moves would make no sense.
func checkMoves(e *evaluation, have *declared) bool {
	single, sound := once{e, map[string]*static.Decl{}, map[string]*static.Decl{}}, true
	next, all := map[plan.Addr]*moveItem{}, plan.Intent{}
	for _, v := range e.moves {
		sound = single.claim(string(v.From), string(v.To), v.d) && sound
		next[v.From] = v
		all.Moves = append(all.Moves, v.Move)
	}
	if !sound || checkMoveCycles(e, next) {
		return false
	}
	for _, r := range e.removals {
		if _, still := have.addrs[r.From]; !still {
			all.Removals = append(all.Removals, r.Removal)
		}
	}
	for _, v := range e.moves {
		// mutex.a may have become mutex.a["x"]: then the block mutex.a is still there, and none of its instances
		// has that address. A move of the whole block is wrong while the block exists.
		if _, still := have.addrs[v.From]; still && (have.exact[v.From] || !v.One) {
			e.Errorf(v.d.Block.Arg("from").Expr.Range(), "Still declared", "%s is still declared%s, so it did not move. Delete its block, or this one.", v.From, declaredAt(e, have.addrs[v.From]))
		}
		// A chain grows with each renaming, and is kept for configurations that skipped a version: only its end must exist.
		if next[v.To] != nil || all.Removed(v.To) != nil {
			continue
		}
		if end := all.Rename(v.To); end == v.To {
			checkTarget(e, v, have)
		} else if all.Removed(end) == nil {
			checkEnd(e, v, end, have)
		}
	}
	return true
}

// checkEnd is checkTarget for what moved on with the namespace, the module or the block around it.
func checkEnd(e *evaluation, v *moveItem, end plan.Addr, have *declared) {
	_, ok := have.addrs[end]
	if _, keyed := end.Key(); !keyed { // it may stand in something with keys
		ok = ok || have.blocks[end.Block()]
	}
	if !ok && have.sound {
		e.Errorf(v.d.Block.Arg("to").Expr.Range(), "Unknown address", "%s is now %s, which is not declared. If it was removed since, delete this block.", v.To, end)
	}
}

func declaredAt(e *evaluation, i *instance) string {
	if i == nil {
		return ""
	}
	return " at " + e.Where(i.decl.Head)
}

// checkTarget reports a move to what is not there. A misspelt one would delete a
// lock and create another.
func checkTarget(e *evaluation, v *moveItem, have *declared) {
	at := v.d.Block.Arg("to").Expr.Range()
	_, keyed := v.To.Key()
	switch {
	case v.lost != "":
		e.Errorf(at, "Unknown address", "%s If it was removed since, delete this block.", v.lost)
	case v.place.Decl() == nil || !have.sound:
	case v.One && !keyed && v.place.Repeated():
		e.Errorf(at, "Missing key", "%s has for_each, so there is one for each key: write %s[\"KEY\"].", v.To, v.To)
	case v.place.Repeated() && !keyed:
	default:
		if _, ok := have.addrs[v.To]; !ok {
			e.Errorf(at, "Unknown address", "%s is declared, but not with these keys. A block with for_each needs one of its keys; others take none.", v.To)
		}
	}
}

// checkMoveCycles reports moves that lead back to where they start, or into themselves.
func checkMoveCycles(e *evaluation, next map[plan.Addr]*moveItem) (found bool) {
	done := map[*moveItem]bool{}
	for _, first := range e.moves {
		text := string(first.From)
		for v := first; v != nil && !done[v]; v = next[v.To] {
			done[v] = true
			text += fmt.Sprintf(" moves to %s (%s)", v.To, e.Where(v.d.Head))
			if v.To == first.From || strings.HasPrefix(string(v.To), string(v.From)+".") {
				e.Errorf(first.d.Head, "Moves in a circle", "%s. A move cannot lead back to its start, or into itself. Delete one of these blocks.", text)
				found = true
			}
			text += ", which"
		}
	}
	return found
}

func checkRemovals(e *evaluation, have *declared) {
	first := map[plan.Addr]*removalItem{}
	for _, r := range e.removals {
		if other := first[r.From]; other != nil {
			e.Errorf(r.d.Head, "Removed twice", "%s is already removed at %s. Delete one of the two blocks.", r.From, e.Where(other.d.Head))
			continue
		}
		first[r.From] = r
		if i, still := have.addrs[r.From]; still {
			e.Errorf(r.d.Block.Arg("from").Expr.Range(), "Still declared", "%s is still declared%s, so it is not removed. Delete its block, or this one.", r.From, declaredAt(e, i))
		}
	}
	for _, v := range e.moves {
		if r := first[v.From]; r != nil {
			e.Errorf(r.d.Head, "Moved and removed", "%s moves to %s at %s, so it is not removed. Delete one of the two blocks.", v.From, v.To, e.Where(v.d.Head))
		}
	}
}

func checkImports(e *evaluation, have *declared) {
	addrs, paths := map[plan.Addr]*importItem{}, map[spot]*importItem{}
	for _, v := range e.imports {
		path := v.d.Block.Arg("path")
		i := have.nodes[v.To]
		if !have.sound && (i == nil || i.ensemble == nil) {
			continue
		}
		if i == nil {
			e.Errorf(v.d.Block.Arg("to").Expr.Range(), "Unknown address", "%s is not a node. A block with for_each needs one of its keys; others take none.", v.To)
			continue
		}
		if first := addrs[v.To]; first != nil {
			e.Errorf(v.d.Head, "Imported twice", "%s is already imported from %s at %s, so it cannot be imported from %s, too.", v.To, first.Path, e.Where(first.d.Head), v.Path)
			continue
		}
		w := spot{i.ensemble, v.Path}
		if first := paths[w]; first != nil {
			e.Errorf(v.d.Head, "Imported twice", "%s already becomes %s at %s. One znode is one lock.", v.Path, first.To, e.Where(first.d.Head))
			continue
		}
		addrs[v.To], paths[w] = v, v
		records := kind.JoinPath(i.ensemble.Root, reserved)
		switch other := have.paths[i.ensemble][v.Path]; {
		case other != nil && other != i:
			v.s.wrong(path, "Path in use", fmt.Sprintf("%s is the path of %s%s. Import it there.", v.Path, other.addr, declaredAt(e, other)))
		case kind.Below(v.Path, records):
			v.s.wrong(path, "Reserved name", records+" is where locktree keeps its own records.")
		}
	}
}

// intentOf is what concerns an ensemble. Addresses are those of the whole
// configuration, so moves and removals concern all.
func intentOf(e *evaluation, on *ensembleBlock, have *declared) plan.Intent {
	var out plan.Intent
	for _, v := range e.moves {
		out.Moves = append(out.Moves, v.Move)
	}
	for _, v := range e.removals {
		out.Removals = append(out.Removals, v.Removal)
	}
	for _, v := range e.imports {
		if have.nodes[v.To].ensemble == on {
			out.Imports = append(out.Imports, v.Import)
		}
	}
	slices.SortFunc(out.Moves, func(a, b plan.Move) int { return cmp.Compare(a.From, b.From) })
	slices.SortFunc(out.Removals, func(a, b plan.Removal) int { return cmp.Compare(a.From, b.From) })
	slices.SortFunc(out.Imports, func(a, b plan.Import) int { return cmp.Compare(a.To, b.To) })
	return out
}
