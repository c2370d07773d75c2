package view_test

import (
	"bytes"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// summary is the document after what was shown.
func summary(show ...any) string {
	var out, err bytes.Buffer
	m := view.NewMarkdown(view.Stream{Writer: &out}, view.Stream{Writer: &err})
	for _, one := range show {
		switch one := one.(type) {
		case view.Result:
			m.Show(one)
		case error:
			m.Diagnostics(view.Explain(one), nil)
		}
	}
	m.Close()
	return out.String()
}

// declaredPlan is a plan whose changes say where they are declared.
func declaredPlan() *plan.Plan {
	p := richPlan()
	for i := range p.Changes {
		if after := p.Changes[i].After; after != nil {
			after.Origin = fmt.Sprintf("locks.locktree.hcl:%d", 1+i%4)
		}
	}
	return p
}

func TestSummary(t *testing.T) {
	drifted := &plan.Plan{Ensemble: "main", Root: "/", Stack: "s", Changes: driftedAlone(), Drifted: []plan.Drift{{Addr: "mutex.a", Path: "/a",
		Attributes: []plan.Attribute{{Name: "max_waiters", Declared: "0", Found: "7"}}}}}
	rich := view.Plan{Plans: []*plan.Plan{declaredPlan()}, Files: sources(), NowMs: now}
	for name, shown := range map[string][]any{
		"summary_rich.md":    {rich},
		"summary_moves.md":   {view.Saved{view.Plan{Plans: []*plan.Plan{movedPlan()}, NowMs: now}}},
		"summary_none.md":    {view.Plan{Plans: []*plan.Plan{{Ensemble: "main", Root: "/", Stack: "s"}}}},
		"summary_drift.md":   {view.Plan{Plans: []*plan.Plan{drifted}}},
		"summary_problem.md": {view.Plan{Plans: []*plan.Plan{failingPlan()}, Files: sources()}},
		"summary_outputs.md": {view.Plan{Plans: []*plan.Plan{{Ensemble: "main", Root: "/", Stack: "s", Outputs: richPlan().Outputs}}}},
		"summary_two.md":     {view.Plan{Plans: []*plan.Plan{smallPlan("east"), smallPlan("west")}}, view.Failf("Lost", "The apply lock.")},
		"summary_error.md":   {view.Failf("No configuration", "Nothing is declared.")},
		"summary_applied.md": {rich, view.Event{Ensemble: "main", Event: apply.Started{Addr: "mutex.a"}}, view.Applied{Operation: "apply", Counts: plan.Counts{Add: 1},
			Outputs: view.Outputs{{Name: "token", Sensitive: true}}}},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, summary(shown...)) })
	}
}

func TestTreeInMarkdown(t *testing.T) {
	pool := node("namespace.payments.semaphore.pool[\"a\"]", "/locks/payments/pool-a", semaphore(8))
	pool.Payload.ChildACL, pool.Payload.Protect = kind.List{{Scheme: "digest", ID: users.ID, Perms: users.Perms | kind.PermWrite}, admins}, true
	family := node("namespace.payments.keyed.orders", "/locks/payments/orders", kind.Keyed.New())
	for _, f := range family.Payload.Params.Fields() {
		switch f.Name {
		case "kind":
			require.NoError(t, f.Set("rwlock"))
		case "description":
			require.NoError(t, f.Set("One order | <b>*at*</b> a time"))
		case "owner":
			require.NoError(t, f.Set("@payments"))
		case "runbook":
			require.NoError(t, f.Set("https://wiki.example.com/a|b\"c"))
		case "max_hold":
			require.NoError(t, f.Set("10m"))
		}
	}
	evil := node("mutex.a", "/a", kind.Mutex.New())
	evil.Payload.Params.(*kind.MutexParams).Runbook = "javascript:alert(1)"
	evil.Payload.State, evil.Payload.MovedTo = kind.StateMoved, "/b"
	tree := &plan.Tree{Ensemble: "main", Root: "/locks", Stack: "payments-prod", Nodes: []*plan.Node{node("namespace.payments", "/locks/payments", kind.Namespace.New()), pool, family, evil}}
	golden(t, "tree.md", summary(view.Live{tree, {Ensemble: "other", Root: "/", Stack: "payments-prod"}}, view.Failf("Not everything", "…")))
}

func TestAnnotations(t *testing.T) {
	p := declaredPlan()
	p.Problems = append(p.Problems, plan.Problem{Severity: plan.Error, Addr: "mutex.x", Path: "/x", Summary: "50%: a, b", Detail: "one\r\n::set-output name=a::b\n100%"})
	workspace, err := filepath.Abs("..")
	require.NoError(t, err)
	text := ""
	for _, root := range []string{"", workspace, "/elsewhere"} {
		var log bytes.Buffer
		v, _, _ := capture(nil)
		out := view.Annotate(v, view.Stream{Writer: &log}, root)
		out.Show(view.Plan{Plans: []*plan.Plan{p}, Files: sources(), NowMs: now})
		out.Show(view.Validation{Diagnostics: hcl.Diagnostics{{Severity: hcl.DiagWarning, Summary: "Odd", Subject: &hcl.Range{Filename: "a,b:c.hcl", Start: hcl.Pos{Line: 7}, End: hcl.Pos{Line: 8}}}}})
		out.Diagnostics(view.Explain(view.Failf("Not reached", "Why.")), nil)
		view.Close(out)
		require.NotContains(t, log.String(), hash)
		for line := range strings.Lines(log.String()) {
			require.Regexp(t, `^::(error|warning|notice) (file=[^:,]+,line=\d+,endLine=\d+,)?title=[^:,]+::.*\n$`, line)
		}
		text += "GITHUB_WORKSPACE=" + strings.ReplaceAll(root, workspace, "WORKSPACE") + "\n" + log.String()
	}
	golden(t, "annotations.txt", text)
}

// What a name says is text, wherever it stands: neither markup nor a mention, which would send mail to people.
func TestNothingInASummaryIsMarkupOfOthers(t *testing.T) {
	const evil = "</pre></details>`|\\`<script>alert(1)</script> @everyone #1 [x](javascript:y) **b** ~~s~~ _i_ $m$ &amp; ::error::x"
	p := declaredPlan()
	for i := range p.Changes {
		c := &p.Changes[i]
		c.Addr, c.Path = plan.Addr(`mutex.a["`+evil+`"]`), "/"+evil
		if c.After != nil {
			c.After.Origin = evil + ":1"
		}
		if c.Usage != nil {
			c.Usage.Holders[0].ID = evil
		}
	}
	p.Ensemble, p.Root, p.Stack, p.Resumes = evil, "/"+evil, evil, evil
	p.Problems = []plan.Problem{{Severity: plan.Error, Addr: evil, Summary: evil, Detail: evil + "\n\n" + evil}}
	p.Outputs[0].Name = evil
	n := node("mutex.a", "/"+evil, kind.Mutex.New())
	params := n.Payload.Params.(*kind.MutexParams)
	params.Description, params.Owner, params.Runbook = evil, evil, "https://x/"+evil
	n.ACL = kind.List{{Scheme: "sasl", ID: evil, Perms: kind.PermRead}}
	text := summary(view.Plan{Plans: []*plan.Plan{p, smallPlan("two")}}, view.Failf(evil, "%s", evil)) + summary(view.Live{{Ensemble: evil, Root: evil, Stack: evil, Nodes: []*plan.Node{n}}})

	// The blocks that are shown as they are contain no markup at all, and what they contain is the exact text.
	whole := regexp.MustCompile(`(?s)<pre>\n(.*?)\n</pre>`)
	for _, block := range whole.FindAllStringSubmatch(text, -1) {
		require.NotContains(t, block[1], "<")
	}
	require.Contains(t, html.UnescapeString(whole.FindStringSubmatch(text)[1]), evil)
	text = whole.ReplaceAllString(text, "")
	// Code between backticks has none of what would end it, nor the border of a cell.
	ticks := regexp.MustCompile("`[^`|\\\\\n]*`")
	text = ticks.ReplaceAllString(text, "")
	// What is left has only the tags of this program.
	for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(text, -1) {
		require.Regexp(t, `^</?(details( open)?|summary|b|code|a)>$|^<a href="https://[^"<>|]*">$`, tag)
	}
	text = regexp.MustCompile(`<code>[^<]*</code>|<a [^>]*>`).ReplaceAllString(text, "") // where nothing is looked for
	require.NotRegexp(t, `@everyone|#1\b|\[x\]|~~|_i_|\$m|script>`, text)
	require.Equal(t, 2, strings.Count(text, "**"), "this plan cannot be applied, and nothing else is bold")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			require.Contains(t, []int{6, 8}, strings.Count(line, "|"), line)
		}
	}
}

// GitHub refuses what is longer than 65,536 characters.
func TestASummaryOfManyChangesFits(t *testing.T) {
	p := &plan.Plan{Ensemble: "main", Root: "/", Stack: "s"}
	for i := range 5000 {
		n := node(fmt.Sprintf("mutex.m%d", i), fmt.Sprintf("/m%04d", i), kind.Mutex.New())
		p.Changes = append(p.Changes, plan.Change{Action: plan.Create, Addr: n.Addr, Path: n.Path, Kind: kind.Mutex, After: n})
		p.Problems = append(p.Problems, plan.Problem{Severity: plan.Warning, Addr: n.Addr, Path: n.Path, Summary: fmt.Sprintf("Odd %d", i), Detail: strings.Repeat("é<", 4000)})
	}
	many := summary(view.Plan{Plans: []*plan.Plan{p}})
	require.LessOrEqual(t, len(many), 60<<10)
	require.Greater(t, len(many), 50<<10)
	for _, want := range []string{"## Plan: 5000 to add, 0 to change, 0 to destroy.\n", "5000 warnings.", `more problems had no place here; "locktree plan" shows everything.`, "more changes had no place", "more blocks had no place"} {
		require.Contains(t, many, want)
	}
	p.Problems = nil
	few := summary(view.Plan{Plans: []*plan.Plan{p}})
	require.LessOrEqual(t, len(few), 60<<10)
	require.Equal(t, strings.Count(few, "<pre>"), strings.Count(few, "</pre>"))
}
