package planview

import (
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
)

// History is who applied what, on each ensemble.
type History []HistoryOf

// HistoryOf is the history of one ensemble, the newest entry first.
type HistoryOf struct {
	Ensemble string          `json:"ensemble"`
	Stack    string          `json:"stack"`
	Entries  []history.Entry `json:"entries"`
}

func (all History) WriteText(h *view.Human) {
	for i, of := range all {
		if i > 0 {
			h.Out.Printf("\n")
		}
		if h.Out.Printf("%s  stack %s\n", h.Out.Paint(view.Bold)(view.Clean(of.Ensemble)), view.Clean(of.Stack)); len(of.Entries) == 0 {
			h.Out.Printf("\nNothing was applied yet.\n")
		}
		for _, e := range of.Entries {
			h.Out.Printf("\n%s  %s  %s%s\n", e.At.UTC().Format(time.RFC3339), h.Out.Paint(view.Bold)(view.Clean(e.Operation)), view.Clean(e.Who), view.Clean(identities(e)))
			for _, line := range entryLines(e) {
				h.Out.Printf("  %s\n", view.Clean(line))
			}
		}
	}
}

// ApplyLine says who did what and when, what was done, where and why.
func ApplyLine(e history.Entry) string {
	return view.Clean(fmt.Sprintf("%s by %s%s: %s", e.Operation, e.Who, identities(e), strings.Join(entryLines(e), ", ")))
}

func identities(e history.Entry) string {
	if len(e.Identities) == 0 {
		return ""
	}
	return " as " + strings.Join(e.Identities, ", ")
}

// entryLines say what was done, where and why.
func entryLines(e history.Entry) (lines []string) {
	if c := e.Changes; c != nil {
		line := strings.TrimSuffix(figures(plan.Counts(*c), "%d imported, ", "%d added, %d changed, %d destroyed", ", %d forgotten"), ".")
		line += fmt.Sprintf("; apply %s of plan %s, locktree %s", e.ID, e.Plan, e.Version)
		if e.Unfinished {
			line += "; it ended between two transactions"
		}
		lines = append(lines, line)
	}
	if e.Lock != "" {
		role := "held by"
		if e.Waited {
			role = "waited for by"
		}
		line := fmt.Sprintf("%s, %s %s, token %d", e.Lock, role, e.Holder, e.Token)
		if len(e.Others) > 0 {
			line += ", with " + strings.Join(e.Others, ", ")
		}
		lines = append(lines, line)
	}
	if e.CI != nil {
		lines = append(lines, strings.TrimSpace(e.CI.System+" "+e.CI.Run))
	}
	if e.Message != "" {
		lines = append(lines, fmt.Sprintf("%q", e.Message))
	}
	return lines
}

func (all History) WriteJSON(m *view.Machine) {
	doc := struct {
		FormatVersion string      `json:"format_version"`
		Ensembles     []HistoryOf `json:"ensembles"`
	}{"1.0", document.List(all)}
	for i := range doc.Ensembles {
		doc.Ensembles[i].Entries = document.List(doc.Ensembles[i].Entries)
	}
	m.Document(doc)
}
