package view

import (
	"strings"

	"github.com/locktree/locktree/plan"
)

// listGroup are access lists of the tool's own nodes that change alike.
type listGroup struct {
	name  string // "acl", or "contender_acl" of the apply lock
	lines []string
	paths []string
}

func listName(c *plan.AccessChange) string {
	if c.Contenders {
		return "contender_acl"
	}
	return "acl"
}

// listGroups folds what says the same of different nodes, in the order of the first ones.
func listGroups(changes []plan.AccessChange) (out []*listGroup) {
	at := map[string]*listGroup{}
	for i := range changes {
		c := &changes[i]
		g := &listGroup{name: listName(c), lines: listChange(&c.ACLDiff)}
		key := g.name + strings.Join(g.lines, "\n")
		if at[key] == nil {
			at[key] = g
			out = append(out, g)
		}
		at[key].paths = append(at[key].paths, c.Pin.Path)
	}
	return out
}

// access shows the tool's own nodes as one block, that of the ensemble which declares who may use them.
func (t planText) access(p *plan.Plan, concise bool) {
	if len(p.Access) == 0 && !p.NotesAccess() {
		return
	}
	addr := clean(plan.EnsembleAddr(p.Ensemble))
	if concise {
		t.printf("  %s %s (%s of locktree's own nodes)\n", t.paint(yellow)("  ~"), addr, Plural(len(p.Access), "access list"))
		return
	}
	t.printf("\n  %s\n  # (who may use locktree's own nodes: admins and readers)\n%s ensemble %s {\n", t.paint(bold)("# "+addr+" will be updated in-place"), t.paint(yellow)("  ~"), quote(p.Ensemble))
	var shown []attribute
	for _, g := range listGroups(p.Access) {
		where := "  # of " + FirstFew(g.paths)
		shown = append(shown, attribute{symbol: "~", name: g.name, list: append([]string{where}, g.lines...)})
	}
	if len(shown) == 0 {
		t.printf("        # (noted in the index; no access list changes)\n")
	}
	t.block(6, shown, 0)
	t.printf("    }\n")
}

func accessJSON(ensemble string, changes []plan.AccessChange) []fields {
	out := []fields{}
	for i := range changes {
		c := &changes[i]
		out = append(out, fields{"ensemble": ensemble, "address": c.Addr, "path": c.Pin.Path, "list": listName(c), "before": aclJSON(c.Before), "after": aclJSON(c.After)})
	}
	return out
}

// plannedAccess is the one message about the tool's own nodes of an ensemble.
func (s *stream) plannedAccess(p *plan.Plan) {
	if len(p.Access) > 0 || p.NotesAccess() {
		addr := plan.EnsembleAddr(p.Ensemble)
		s.send("info", "planned_change", string(addr)+": Plan to update",
			fields{"change": fields{"resource": resource(p.Ensemble, addr), "action": "update", "access": accessJSON(p.Ensemble, p.Access)}})
	}
}
