package planview_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

func TestPlanText(t *testing.T) {
	cases := map[string]planview.Plan{
		"plan_rich.txt":     {Plans: []*plan.Plan{richPlan()}, Files: sources(), NowMs: now},
		"plan_saved.txt":    {Plans: []*plan.Plan{richPlan()}, SavedTo: "p 1.bin", Concise: true, NowMs: now},
		"plan_none.txt":     {Plans: []*plan.Plan{{Ensemble: "main"}}},
		"destroy_none.txt":  {Plans: []*plan.Plan{{Ensemble: "main", Destroy: true, Index: plan.Pin{Absent: true}}}},
		"plan_problem.txt":  {Plans: []*plan.Plan{failingPlan()}, Files: sources(), SavedTo: "never.bin"},
		"plan_outputs.txt":  {Plans: []*plan.Plan{{Ensemble: "main", Outputs: richPlan().Outputs}}, NoAdvice: true},
		"destroy_index.txt": {Plans: []*plan.Plan{{Ensemble: "main", Destroy: true, Index: plan.Pin{Path: "/locks/.locktree/stacks/s"}}}, NoAdvice: true},
		"plan_moves.txt":    {Plans: []*plan.Plan{movedPlan()}, NoAdvice: true, NowMs: now},
		"plan_gist.txt":     {Plans: []*plan.Plan{movedPlan()}, NoAdvice: true, Concise: true},
		"plan_seals.txt":    {Plans: []*plan.Plan{{Ensemble: "main", Changes: unsealedAlone()}}, NoAdvice: true},
		"plan_drift.txt": {Plans: []*plan.Plan{{Ensemble: "main", Changes: driftedAlone(), Drifted: []plan.Drift{{Addr: "mutex.a", Path: "/a",
			Attributes: []plan.Attribute{{Name: "max_waiters", Declared: "0", Found: "7"}}}}}}, NoAdvice: true},
		"plan_two.txt": {Plans: []*plan.Plan{smallPlan("east"), smallPlan("west")}, NoAdvice: true},
	}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			v, out, err := capture(nil)
			v.Show(p)
			golden(t, name, "-- stdout --\n"+out.String()+"-- stderr --\n"+err.String())
		})
	}
}

// An idle lock was "in use: 0 held, 0 waiting", because of a child that is no contender.
func TestPlanSaysWhatIsInALockThatNobodyUses(t *testing.T) {
	before, after := node("mutex.a", "/a", kind.Mutex.New()), node("mutex.a", "/a", kind.Mutex.New())
	for name, c := range map[string]struct {
		usage kind.Usage
		text  string
		gist  string
	}{
		"a foreign child":        {kind.Usage{Junk: []string{"readme"}}, "# (not in use, but contains 1 foreign child)", "(1 foreign child)"},
		"foreign children":       {kind.Usage{Junk: []string{"readme", "x"}}, "# (not in use, but contains 2 foreign children)", "(2 foreign children)"},
		"a holder":               {kind.Usage{Holders: []kind.Party{{}}}, "# (in use: 1 held, 0 waiting; takes effect without interrupting holders)", "(in use)"},
		"a waiter and a foreign": {kind.Usage{Waiters: []kind.Party{{}}, Junk: []string{"x"}}, "# (in use: 0 held, 1 waiting, 1 foreign child; takes effect", "(in use)"},
	} {
		p := &plan.Plan{Ensemble: "main", Root: "/", Changes: []plan.Change{
			{Action: plan.Update, Addr: "mutex.a", Path: "/a", Kind: kind.Mutex, Before: before, After: after, Usage: &c.usage}}}
		require.Contains(t, text(planview.Plan{NoAdvice: true, Plans: []*plan.Plan{p}}), c.text, name)
		require.Contains(t, text(planview.Plan{NoAdvice: true, Concise: true, Plans: []*plan.Plan{p}}), c.gist, name)
	}
}

// A plan that must not be applied never says what applying it would do.
func TestAPlanThatFailsIsNotRecommended(t *testing.T) {
	p := failingPlan()
	p.Changes, p.Outputs = nil, richPlan().Outputs
	shown := text(planview.Plan{Plans: []*plan.Plan{p}})
	require.Contains(t, shown, "Changes to Outputs")
	require.NotContains(t, shown, "You can apply this plan")
}

// A lock that becomes one of another kind keeps what both kinds have.
func TestAnotherKindShowsWhatDiffers(t *testing.T) {
	described := func(p kind.Params, text string) kind.Params {
		for _, f := range p.Fields() {
			if f.Name == "description" {
				require.NoError(t, f.Set(text))
			}
		}
		return p
	}
	for name, c := range map[string]struct {
		before, after string
		want, hidden  string
	}{
		"kept":    {"Same.", "Same.", "", "2 unchanged attributes"},
		"changed": {"Old.", "New.", `~ description = "Old." -> "New."`, "1 unchanged attribute "},
		"gone":    {"Old.", "", `- description = "Old." -> null`, "1 unchanged attribute "},
		"new":     {"", "New.", `+ description = "New."`, "1 unchanged attribute "},
	} {
		t.Run(name, func(t *testing.T) {
			before := node("semaphore.a", "/a", described(semaphore(3), c.before))
			after := node("mutex.a", "/a", described(kind.Mutex.New(), c.after))
			shown := strings.Join(strings.Fields(text(planview.Plan{NoAdvice: true, Plans: []*plan.Plan{{Ensemble: "main", Root: "/", Changes: []plan.Change{
				{Action: plan.Replace, Addr: "mutex.a", Path: "/a", Kind: kind.Mutex, Before: before, After: after, ForcesReplace: []string{"type"}}}}}})), " ")
			require.Contains(t, shown, `~ type = "semaphore" -> "mutex" # forces replacement - `)
			require.Contains(t, shown, `- permits = 3 -> null`)
			require.Contains(t, shown, c.hidden)
			require.Contains(t, shown, c.want)
			require.Equal(t, c.want != "", strings.Contains(shown, "description"))
		})
	}
}

// A terminal gets colours and frames; the text under them is the same.
func TestPlanColors(t *testing.T) {
	v, out, err := capture(func(s *view.Stream) { s.Color, s.Terminal = true, true })
	v.Show(planview.Plan{Plans: []*plan.Plan{failingPlan()}, Files: sources()})
	golden(t, "plan_color.txt", out.String()+err.String())

	// Symbols have the colour of the legend wherever they stand; taken away, the text is what a pipe gets.
	plain, want, _ := capture(nil)
	v, out, _ = capture(func(s *view.Stream) { s.Color = true })
	for _, concise := range []bool{false, true} {
		p := planview.Plan{Plans: []*plan.Plan{richPlan()}, Concise: concise}
		v.Show(p)
		plain.Show(p)
	}
	require.Equal(t, want.String(), regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(out.String(), ""))
	require.NotRegexp(t, `(?m)^ +[-+~] `, out.String())
	require.Contains(t, out.String(), "\x1b[1;31mdestroyed\x1b[0m")
}

// A digest's hash is enough to guess a weak password from; no view prints it.
func TestNoViewShowsDigests(t *testing.T) {
	var doc, errs bytes.Buffer
	human, out, err := capture(nil)
	tree := &plan.Tree{Ensemble: "main", Root: "/", Nodes: []*plan.Node{richPlan().Changes[0].Before, richPlan().Changes[1].After}}
	for _, v := range []view.Output{human, view.NewDocuments(&doc, view.Stream{Writer: &errs}, "1.2.3")} {
		v.Show(planview.Saved{planview.Plan{Plans: []*plan.Plan{richPlan()}}})
		v.Show(planview.Live{tree})
		v.Show(lockview.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}})
	}
	all := out.String() + err.String() + doc.String() + errs.String() + stream(planview.Plan{Plans: []*plan.Plan{richPlan()}})
	require.Contains(t, all, "digest:payments:cdr", "the access lists must have been printed for this test to mean anything")
	require.NotContains(t, all, hash)
	require.NotContains(t, all, "OTHER"+hash[5:])
}

// Control characters in texts of a server must not reach the terminal.
func TestControlCharactersAreShownNotObeyed(t *testing.T) {
	p := richPlan()
	evil := *busy
	evil.Holders = []kind.Party{{ID: "a\x1b[2Jb\u202e"}}
	p.Changes[0].Usage = &evil
	p.Problems[0].Detail = "children: \x1b]0;owned\x07"
	tree := &plan.Tree{Root: "/", Nodes: []*plan.Node{{Path: "/x", Payload: richPlan().Changes[0].Before.Payload, Live: &plan.Live{Usage: &evil}}}, Unmanaged: []string{"/\x1b[31m"}}
	v, out, err := capture(nil)
	v.Show(planview.Plan{Plans: []*plan.Plan{p}})
	v.Show(lockview.Status{Trees: []*plan.Tree{tree}, Declared: []*plan.Tree{{}}, Servers: []string{""}, Drift: []*plan.Plan{{}}})
	require.Contains(t, out.String(), `a\x1b[2Jb\u202e`)
	require.False(t, strings.ContainsAny(out.String()+err.String(), "\x1b\x07\u202e"))
}

// Of equal problems people read the first three and a count; programs read each.
func TestFindingsAlikeAreFoldedForPeople(t *testing.T) {
	p := &plan.Plan{}
	for i := range 47 {
		addr := fmt.Sprintf("mutex.m[\"%d\"]", i)
		p.Problems = append(p.Problems, plan.Problem{Severity: problem.Error, Addr: plan.Addr(addr), Path: "/m", Summary: "Node cannot be read", Detail: addr + " may not be read by us."})
	}
	human, _, errs := capture(nil)
	human.Show(planview.Plan{Plans: []*plan.Plan{p}})
	require.Equal(t, 1, strings.Count(errs.String(), "Error: Node cannot be read"), errs.String())
	require.Contains(t, errs.String(), "mutex.m[\"0\"] may not be read by us.\n\nThe same goes for 46 more: mutex.m[\"1\"], mutex.m[\"2\"], mutex.m[\"3\"] and 43 more.\n")
	require.Equal(t, 47, strings.Count(stream(planview.Plan{Plans: []*plan.Plan{p}}), `"summary":"Node cannot be read"`))
}

// Two passwords of one user, as while one is rotated: the entries read the same, and what comes and goes is shown.
func TestDigestsOfOneUserAreToldApart(t *testing.T) {
	of := func(hash string) kind.ACL { return kind.ACL{Scheme: "digest", ID: "ops:" + hash, Perms: kind.PermAll} }
	ci := kind.ACL{Scheme: "digest", ID: "ci:1", Perms: kind.PermRead}
	for _, c := range []struct {
		before, after kind.List
		want          []string
	}{
		{kind.List{of("1"), ci}, kind.List{of("1"), of("2"), ci}, []string{`+ "digest:ops:cdrwa", # another digest of that user`, "  # (2 unchanged entries hidden)"}},
		{kind.List{of("1"), of("2"), ci}, kind.List{of("2"), ci}, []string{`- "digest:ops:cdrwa", # another digest of that user`, "  # (2 unchanged entries hidden)"}},
		{kind.List{of("1"), ci}, kind.List{of("2"), ci}, []string{`~ "digest:ops:cdrwa", # another digest of that user`, "  # (1 unchanged entry hidden)"}},
		{kind.List{of("1")}, kind.List{of("1"), ci}, []string{`+ "digest:ci:r",`, "  # (1 unchanged entry hidden)"}},
		{kind.List{of("1"), ci}, kind.List{of("1")}, []string{`- "digest:ci:r",`, "  # (1 unchanged entry hidden)"}},
	} {
		require.Equal(t, c.want, planview.ListChange(&plan.ACLDiff{Before: c.before, After: c.after}))
	}
}

func TestPlanForPrograms(t *testing.T) {
	golden(t, "plan.jsonl", stream(planview.Plan{Plans: []*plan.Plan{richPlan()}, Files: sources(), SavedTo: "p.bin"}))
	golden(t, "plan_moves.jsonl", stream(planview.Plan{Plans: []*plan.Plan{movedPlan()}}))
	golden(t, "plan.json", document(planview.Saved{planview.Plan{Plans: []*plan.Plan{richPlan()}}}))
}
