package lockview

import (
	"slices"
	"strings"

	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// Checkup is what doctor found, by ensemble.
type Checkup []CheckupOf

// CheckupOf is about one ensemble.
type CheckupOf struct {
	Ensemble string
	Err      error // why doctor could not finish with it
	Servers  []CheckupServer
	Together []check.Condition // of all servers
	Root     string
	Empty    []scan.Empty // empty nodes of undeclared locks below the root
	checkup.Report
}

// CheckupServer is one server: they may be configured differently.
type CheckupServer struct {
	Server     string
	Conditions []check.Condition
}

// Count is how many conditions there are of a verdict.
func (c Checkup) Count(v check.Verdict) (n int) {
	for _, e := range c {
		for _, k := range e.Findings() {
			if k.Verdict == v {
				n++
			}
		}
	}
	return n
}

// Finding is one of the conditions, and the place where it was found.
type Finding struct {
	Where string
	check.Condition
}

// Findings returns all findings.
func (e CheckupOf) Findings() (out []Finding) {
	for _, s := range slices.Concat(e.Servers, []CheckupServer{{"all servers", e.Together}, {e.Root, e.Locks}}) {
		for _, k := range s.Conditions {
			out = append(out, Finding{s.Server, k})
		}
	}
	return out
}

// Err is the error of a command that could not finish; nil if it finished.
func (c Checkup) Err() error {
	var lost view.Lost
	for _, e := range c {
		if e.Err != nil {
			lost = append(lost, view.Unseen{Ensemble: e.Ensemble, Only: len(c) == 1, Err: e.Err})
		}
	}
	return lost.Err()
}

func (c Checkup) WriteText(h *view.Human) {
	for _, e := range c {
		section := func(of string, list []check.Condition) {
			h.Out.Printf("%s  %s\n\n", h.Out.Paint(view.Bold)(view.Clean(e.Ensemble)), view.Clean(of))
			conditions(h, list)
		}
		for _, s := range e.Servers {
			section(s.Server, s.Conditions)
		}
		if len(e.Together) > 0 {
			section("all servers", e.Together)
		}
		if e.Err != nil { // the command ends with this error
			continue
		}
		section(e.Root+", "+view.Plural(e.Checked, "lock")+" checked", e.Locks)
		if e.Cut {
			h.Out.Printf("  There are more locks, which were not checked.\n\n")
		}
		for _, line := range emptyLines(e.Empty, e.Root) {
			h.Out.Printf("  %s\n", line)
		}
		if len(e.Empty) > 0 {
			h.Out.Printf("\n")
		}
	}
	h.Out.Printf("%d %s, %d unsure, %d fail.\n", c.Count(check.Holds), view.PluralWord(c.Count(check.Holds), "condition holds", "conditions hold"), c.Count(check.Unsure), c.Count(check.Fails))
}

func conditions(h *view.Human, list []check.Condition) {
	for _, k := range list {
		colour := map[check.Verdict]string{check.Holds: view.Green, check.Unsure: view.Yellow, check.Fails: view.Red}[k.Verdict]
		h.Out.Printf("  %s  %s: %s\n", h.Out.Paint(colour)((k.Verdict.String() + "      ")[:6]), view.Clean(k.Name), view.Clean(explain.Plain(k.What)))
		if k.Verdict != check.Holds {
			h.Out.Printf("          %s\n          %s\n", explain.Sentence(view.Clean(k.Why)), explain.Sentence(view.Clean(next(k))))
		}
	}
	if len(list) > 0 {
		h.Out.Printf("\n")
	}
}

// next returns the next step. If the library's text mentions a setting, it adds where that is configured.
func next(k check.Condition) string {
	switch {
	case k.Verdict != check.Holds && strings.Contains(k.Next, "session timeout"):
		return explain.Sentence(k.Next) + " The session timeout is session_timeout of the ensemble block, or ZOOKEEPER_SESSION."
	case k.Verdict != check.Holds && strings.Contains(k.Next, "credentials"):
		return explain.Sentence(k.Next) + " " + view.CredentialsAre
	}
	return k.Next
}

// checkupDoc is the -json of doctor.
type checkupDoc struct {
	FormatVersion string         `json:"format_version"`
	Ensembles     []checkupOfDoc `json:"ensembles"`
	Holds         int            `json:"holds"`
	Unsure        int            `json:"unsure"`
	Fails         int            `json:"fails"`
}

type checkupOfDoc struct {
	Ensemble     string         `json:"ensemble"`
	Root         string         `json:"root"`
	Error        string         `json:"error,omitempty"` // why doctor could not finish with it
	Servers      []serverDoc    `json:"servers"`
	Conditions   []conditionDoc `json:"conditions"` // of all servers together
	LocksChecked int            `json:"locks_checked"`
	Cut          bool           `json:"cut"` // there are more locks
	Locks        []conditionDoc `json:"locks"`
	Empty        []emptyDoc     `json:"empty,omitempty"` // empty nodes of undeclared locks below the root
}

type serverDoc struct {
	Server     string         `json:"server"`
	Conditions []conditionDoc `json:"conditions"`
}

type conditionDoc struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	What    string `json:"what"`
	Why     string `json:"why"`
	Next    string `json:"next"`
}

func conditionDocs(ks []check.Condition) []conditionDoc {
	out := []conditionDoc{}
	for _, k := range ks {
		out = append(out, conditionDoc{k.Name, k.Verdict.String(), strings.TrimSpace(explain.Plain(k.What)), k.Why, next(k)})
	}
	return out
}

func (c Checkup) WriteJSON(m *view.Machine) {
	doc := checkupDoc{"1.2", []checkupOfDoc{}, c.Count(check.Holds), c.Count(check.Unsure), c.Count(check.Fails)}
	for _, e := range c {
		servers := []serverDoc{}
		for _, s := range e.Servers {
			servers = append(servers, serverDoc{s.Server, conditionDocs(s.Conditions)})
		}
		why := ""
		if e.Err != nil {
			why = view.Brief(e.Err)
		}
		doc.Ensembles = append(doc.Ensembles, checkupOfDoc{e.Ensemble, e.Root, why, servers, conditionDocs(e.Together), e.Checked, e.Cut, conditionDocs(e.Locks), emptyDocs(e.Empty)})
	}
	m.Document(doc)
}
