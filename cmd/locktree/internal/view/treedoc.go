package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// markdown is the documentation of the trees: what each lock is for, whom to ask, what is normal for it, and who may use it.
func (trees Live) markdown() string {
	var b strings.Builder
	for _, tree := range trees {
		fmt.Fprintf(&b, "## Locks of stack %s\n\nOn ensemble %s, below %s.\n\n", code(tree.Stack), code(tree.Ensemble), code(tree.Root))
		head := "| path | what | for | owner | limits | runbook | who may |\n|---|---|---|---|---|---|---|\n"
		for _, n := range tree.Nodes {
			if n.Payload == nil {
				continue // not this stack's
			}
			l := n.Payload.Limits()
			runbook := ""
			if l.Runbook != "" {
				runbook = link("runbook", l.Runbook)
			}
			fmt.Fprintf(&b, "%s| %s | %s | %s | %s | %s | %s | %s |\n", head, code(n.Path), kindCell(n), prose(stated(n, "description")), prose(l.Owner), limitsCell(n), runbook, accessCell(n))
			head = ""
		}
		if head != "" {
			b.WriteString("This stack has no locks here.\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// kindCell is the type of a lock and what of its parameters matters to who uses it.
func kindCell(n *plan.Node) string {
	parts := []string{n.Kind().Name}
	if n.Kind().Key != nil {
		parts[0] = "a " + n.Kind().Key(n.Payload.Params).Kind().Name + " for each key"
	}
	for _, f := range notables(n) {
		if !slices.Contains(documented, f.Name) && !(n.Kind().Key != nil && f.Name == "kind") {
			parts = append(parts, prose(f.Name+" "+fmt.Sprint(f.Get())))
		}
	}
	switch {
	case n.Payload.State == kind.StateMoved:
		parts = append(parts, "moved to "+code(n.Payload.MovedTo))
	case n.Payload.State != kind.StateActive:
		parts = append(parts, prose(string(n.Payload.State)))
	}
	if n.Payload.Protect {
		parts = append(parts, "protected")
	}
	return strings.Join(parts, ", ")
}

// documented are the parameters with a column of their own.
var documented = []string{"description", "owner", "runbook", "max_hold", "max_wait", "max_waiters"}

// stated is a parameter, "" where the kind has none of that name.
func stated(n *plan.Node, name string) string {
	if f := find(notables(n), name); f != nil {
		return fmt.Sprint(f.Get())
	}
	return ""
}

func limitsCell(n *plan.Node) string {
	var parts []string
	for _, one := range []struct{ name, says string }{{"max_hold", "held at most "}, {"max_wait", "waited for at most "}, {"max_waiters", "waiters at most "}} {
		if v := stated(n, one.name); v != "" {
			parts = append(parts, one.says+prose(v))
		}
	}
	return strings.Join(parts, ", ")
}

func accessCell(n *plan.Node) string {
	var parts []string
	for _, g := range n.Grants() {
		parts = append(parts, code(g.Who.String())+" "+g.May)
	}
	return strings.Join(parts, ", ")
}
