package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// inventory is everything that has an address or a path. Intents are checked against it.
type inventory struct {
	addrs map[plan.Addr]*eval.Instance // nodes and their blocks; module instances and module blocks have the value nil
	nodes map[plan.Addr]*eval.Instance // nodes alone
	exact map[plan.Addr]bool           // nodes and instances of modules, without blocks that have for_each
	// blocks are the addresses without any keys.
	blocks map[plan.Addr]bool
	paths  map[*eval.Ensemble]map[string]*eval.Instance
	// sound: no earlier error can be the reason why an address is missing.
	sound bool
}

func declaredBy(e *eval.Evaluation) *inventory {
	d := &inventory{addrs: map[plan.Addr]*eval.Instance{}, nodes: map[plan.Addr]*eval.Instance{}, exact: map[plan.Addr]bool{}, blocks: map[plan.Addr]bool{}, paths: map[*eval.Ensemble]map[string]*eval.Instance{}}
	for _, i := range e.All.Instances {
		d.nodes[i.Addr], d.addrs[i.Addr], d.exact[i.Addr] = i, i, true
		if i.Key != "" || i.Node.Attr("for_each") != nil {
			d.addrs[i.Addr.Base()] = i
		}
		if d.paths[i.Ensemble] == nil {
			d.paths[i.Ensemble] = map[string]*eval.Instance{}
		}
		d.paths[i.Ensemble][i.Path] = i
	}
	for _, c := range e.All.ModuleAddrs {
		d.addrs[c.Instance], d.addrs[c.Block], d.exact[c.Instance] = nil, nil, true
	}
	for addr := range d.addrs {
		d.blocks[addr.Block()] = true
	}
	return d
}

// checkIntents reports errors of intents that show only when every node is known.
func checkIntents(e *eval.Evaluation) {
	have := declaredBy(e)
	have.sound = !e.Diags.HasErrors()
	// The block that a removal names may have moved before, so checkRemovals needs moves that can be followed.
	if checkMoves(e, have) {
		checkRemovals(e, have)
	}
	checkImports(e, have)
}

// duplicates reports two blocks of one type with the same from, or with the same to.
type duplicates struct {
	in       *eval.Evaluation
	from, to map[string]*static.Decl
}

func (o duplicates) claim(from, to string, d *static.Decl) bool {
	if first := o.from[from]; first != nil {
		o.in.Errorf(d.Head, "Moved twice", "The block at %s already moves %s. Delete one of the two blocks.", o.in.Where(first.Head), from)
		return false
	}
	if first := o.to[to]; first != nil {
		o.in.Errorf(d.Head, "Moved twice", "The block at %s already moves something to %s. Delete one of the two blocks.", o.in.Where(first.Head), to)
		return false
	}
	o.from[from], o.to[to] = d, d
	return true
}

// checkMoves returns false if the moves cannot be followed.
func checkMoves(e *eval.Evaluation, have *inventory) bool {
	single, sound := duplicates{e, map[string]*static.Decl{}, map[string]*static.Decl{}}, true
	next, all := map[plan.Addr]*eval.Move{}, plan.Intent{}
	for _, v := range e.All.Moves {
		sound = single.claim(string(v.From), string(v.To), v.Decl) && sound
		next[v.From] = v
		all.Moves = append(all.Moves, v.Move)
	}
	if !sound || checkMoveCycles(e, next) {
		return false
	}
	for _, r := range e.All.Removals {
		if _, still := have.addrs[r.From]; !still {
			all.Removals = append(all.Removals, r.Removal)
		}
	}
	for _, v := range e.All.Moves {
		// A move of mutex.a to mutex.a["x"] is right: the block still exists, but no instance has the address mutex.a. A move of
		// the whole block is wrong while the block exists.
		if _, still := have.addrs[v.From]; still && (have.exact[v.From] || !v.One) {
			e.Errorf(v.Decl.Block.Arg("from").Expr.Range(), "Still declared", "%s is still declared%s, so it did not move. Delete its block, or this one.", v.From, declaredAt(e, have.addrs[v.From]))
		}
		// Each renaming adds a move to a chain of moves. Old moves stay in the configuration for ensembles that may have missed
		// the versions in between. So only the end of the chain must exist.
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

// checkEnd takes the place of checkTarget if another move changes the target's address, such as a move of the namespace or module
// around it. It reports a final address that is not declared.
func checkEnd(e *eval.Evaluation, v *eval.Move, end plan.Addr, have *inventory) {
	_, ok := have.addrs[end]
	if _, keyed := end.Key(); !keyed { // the block may be in a block with keys
		ok = ok || have.blocks[end.Block()]
	}
	if !ok && have.sound {
		e.Errorf(v.Decl.Block.Arg("to").Expr.Range(), "Unknown address", "%s is now %s, which is not declared. If it was removed since, delete this block.", v.To, end)
	}
}

func declaredAt(e *eval.Evaluation, i *eval.Instance) string {
	if i == nil {
		return ""
	}
	return " at " + e.Where(i.Node.Head)
}

// checkTarget reports a move to an address that is not declared. A misspelt one would delete a lock and create another.
func checkTarget(e *eval.Evaluation, v *eval.Move, have *inventory) {
	at := v.Decl.Block.Arg("to").Expr.Range()
	_, keyed := v.To.Key()
	switch {
	case v.Lost != "":
		e.Errorf(at, "Unknown address", "%s If it was removed since, delete this block.", v.Lost)
	case v.Place.Decl() == nil || !have.sound:
	case v.One && !keyed && v.Place.Repeated():
		e.Errorf(at, "Missing key", "%s has for_each, so there is one for each key: write %s[\"KEY\"].", v.To, v.To)
	case v.Place.Repeated() && !keyed:
	default:
		if _, ok := have.addrs[v.To]; !ok {
			e.Errorf(at, "Unknown address", "%s is declared, but not with these keys. A block with for_each needs one of its keys; others take none.", v.To)
		}
	}
}

// checkMoveCycles reports moves that lead back to where they start, or into themselves.
func checkMoveCycles(e *eval.Evaluation, next map[plan.Addr]*eval.Move) (found bool) {
	done := map[*eval.Move]bool{}
	for _, first := range e.All.Moves {
		text := string(first.From)
		for v := first; v != nil && !done[v]; v = next[v.To] {
			done[v] = true
			text += fmt.Sprintf(" moves to %s (%s)", v.To, e.Where(v.Decl.Head))
			if v.To == first.From || strings.HasPrefix(string(v.To), string(v.From)+".") {
				e.Errorf(first.Decl.Head, "Moves in a circle", "%s. A move cannot lead back to its start, or into itself. Delete one of these blocks.", text)
				found = true
			}
			text += ", which"
		}
	}
	return found
}

func checkRemovals(e *eval.Evaluation, have *inventory) {
	first := map[plan.Addr]*eval.Removal{}
	for _, r := range e.All.Removals {
		if other := first[r.From]; other != nil {
			e.Errorf(r.Decl.Head, "Removed twice", "%s is already removed at %s. Delete one of the two blocks.", r.From, e.Where(other.Decl.Head))
			continue
		}
		first[r.From] = r
		if i, still := have.addrs[r.From]; still {
			e.Errorf(r.Decl.Block.Arg("from").Expr.Range(), "Still declared", "%s is still declared%s, so it is not removed. Delete its block, or this one.", r.From, declaredAt(e, i))
		}
	}
	for _, v := range e.All.Moves {
		if r := first[v.From]; r != nil {
			e.Errorf(r.Decl.Head, "Moved and removed", "%s moves to %s at %s, so it is not removed. Delete one of the two blocks.", v.From, v.To, e.Where(v.Decl.Head))
		}
	}
}

func checkImports(e *eval.Evaluation, have *inventory) {
	addrs, paths := map[plan.Addr]*eval.Import{}, map[spot]*eval.Import{}
	for _, v := range e.All.Imports {
		i := have.nodes[v.To]
		if !have.sound && (i == nil || i.Ensemble == nil) {
			continue
		}
		if i == nil {
			e.Errorf(v.Decl.Block.Arg("to").Expr.Range(), "Unknown address", "%s is not a node. A block with for_each needs one of its keys; others take none.", v.To)
			continue
		}
		if first := addrs[v.To]; first != nil {
			e.Errorf(v.Decl.Head, "Imported twice", "%s is already imported from %s at %s, so it cannot be imported from %s, too.", v.To, first.Path, e.Where(first.Decl.Head), v.Path)
			continue
		}
		w := spot{i.Ensemble, v.Path}
		if first := paths[w]; first != nil {
			e.Errorf(v.Decl.Head, "Imported twice", "%s already becomes %s at %s. One znode is one lock.", v.Path, first.To, e.Where(first.Decl.Head))
			continue
		}
		addrs[v.To], paths[w] = v, v
		records := kind.JoinPath(i.Ensemble.Root, eval.Reserved)
		switch other := have.paths[i.Ensemble][v.Path]; {
		case other != nil && other != i:
			v.Wrong("Path in use", fmt.Sprintf("%s is the path of %s%s. Import it there.", v.Path, other.Addr, declaredAt(e, other)))
		case kind.Below(v.Path, records):
			v.Wrong("Reserved name", records+" is where locktree keeps its own records.")
		}
	}
}

// intentOf returns the part of the intents that concerns an ensemble. Addresses are those of the whole configuration, so moves and
// removals concern all.
func intentOf(e *eval.Evaluation, on *eval.Ensemble, have *inventory) plan.Intent {
	var out plan.Intent
	for _, v := range e.All.Moves {
		out.Moves = append(out.Moves, v.Move)
	}
	for _, v := range e.All.Removals {
		out.Removals = append(out.Removals, v.Removal)
	}
	for _, v := range e.All.Imports {
		if have.nodes[v.To].Ensemble == on {
			out.Imports = append(out.Imports, v.Import)
		}
	}
	slices.SortFunc(out.Moves, func(a, b plan.Move) int { return cmp.Compare(a.From, b.From) })
	slices.SortFunc(out.Removals, func(a, b plan.Removal) int { return cmp.Compare(a.From, b.From) })
	slices.SortFunc(out.Imports, func(a, b plan.Import) int { return cmp.Compare(a.To, b.To) })
	return out
}
