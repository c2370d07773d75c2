package view_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

func TestAPlanIsShownAsText(t *testing.T) {
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
			v, out, err := capture()
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
func TestColoursChangeNoTextOfAPlan(t *testing.T) {
	v, out, err := capture(func(s *view.Stream) { s.Color, s.Terminal = true, true })
	v.Show(planview.Plan{Plans: []*plan.Plan{failingPlan()}, Files: sources()})
	golden(t, "plan_color.txt", out.String()+err.String())

	// Symbols have the colour of the legend everywhere. Without colours, the text is that of a pipe.
	plain, want, _ := capture()
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

// People read the first of equal problems, three more addresses and a count; programs read each.
func TestFindingsAlikeAreFoldedForPeople(t *testing.T) {
	p := &plan.Plan{}
	for i := range 47 {
		addr := fmt.Sprintf("mutex.m[\"%d\"]", i)
		p.Problems = append(p.Problems, plan.Problem{Severity: problem.Error, Addr: plan.Addr(addr), Path: "/m", Summary: "Node cannot be read", Detail: addr + " may not be read by us."})
	}
	human, _, errs := capture()
	human.Show(planview.Plan{Plans: []*plan.Plan{p}})
	require.Equal(t, 1, strings.Count(errs.String(), "Error: Node cannot be read"), errs.String())
	require.Contains(t, errs.String(), "mutex.m[\"0\"] may not be read by us.\n\nThe same goes for 46 more: mutex.m[\"1\"], mutex.m[\"2\"], mutex.m[\"3\"] and 43 more.\n")
	require.Equal(t, 47, strings.Count(stream(planview.Plan{Plans: []*plan.Plan{p}}), `"summary":"Node cannot be read"`))
}

func TestPlanForPrograms(t *testing.T) {
	golden(t, "plan.jsonl", stream(planview.Plan{Plans: []*plan.Plan{richPlan()}, Files: sources(), SavedTo: "p.bin"}))
	golden(t, "plan_moves.jsonl", stream(planview.Plan{Plans: []*plan.Plan{movedPlan()}}))
	golden(t, "plan.json", document(planview.Saved{Plan: planview.Plan{Plans: []*plan.Plan{richPlan()}}}))
	p := smallPlan("main")
	p.Changes[0].Addr = `module.team["x"].mutex.a`
	require.Contains(t, stream(planview.Plan{Plans: []*plan.Plan{p}}), `"module":"module.team[\"x\"]","resource":"mutex.a"`)
}

// manyLocks is a plan that creates locks of two blocks, one of them because of a move, and deletes a lock of a third.
func manyLocks(shards int) *plan.Plan {
	p := &plan.Plan{Ensemble: "main", Root: "/"}
	add := func(action plan.Action, addr plan.Addr) *plan.Change {
		path := fmt.Sprintf("/%04d", len(p.Changes))
		n := &plan.Node{Path: path, Addr: addr, Payload: &kind.Payload{Params: kind.Mutex.New()}}
		c := plan.Change{Action: action, Addr: addr, Path: path, Kind: kind.Mutex, After: n}
		if action == plan.Delete {
			c.Before, c.After = n, nil
		}
		p.Changes = append(p.Changes, c)
		return &p.Changes[len(p.Changes)-1]
	}
	for i := range shards {
		add(plan.Create, plan.Addr(fmt.Sprintf("mutex.shard[\"%03d\"]", i)))
	}
	for i := range 3 {
		add(plan.Create, plan.Addr(fmt.Sprintf("mutex.few[\"%d\"]", i)))
	}
	add(plan.Create, `mutex.shard["moved"]`).PreviousAddr = "mutex.before"
	add(plan.Delete, "mutex.gone")
	return p
}

// A plan of 100,000 locks had 800,000 lines.
func TestManyChangesAreGroupedOnATerminal(t *testing.T) {
	show := func(terminal bool, p planview.Plan) string {
		var out strings.Builder
		to := view.Stream{Writer: &out, Terminal: terminal, Width: 78}
		view.NewHuman(to, to).Show(p)
		return out.String()
	}
	few, many := manyLocks(195), manyLocks(196)
	text := show(true, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true})
	require.Contains(t, text, `
  # mutex.shard will be created, 196 times
  + mutex.shard["000"]
  + mutex.shard["001"]
  + mutex.shard["002"]
    # (and 193 more)
`)
	for _, whole := range []string{`# mutex.few["0"] will be created`, `# mutex.few["2"] will be created`, `# mutex.shard["moved"] will be created`, `# (moved from mutex.before)`, "# mutex.gone will be destroyed"} {
		require.Contains(t, text, whole)
	}
	require.Contains(t, text, "-full shows each.")
	require.NotContains(t, text, "003")
	require.Less(t, strings.Count(text, "\n"), 60)
	for name, whole := range map[string]string{
		"as many as can be read": show(true, planview.Plan{Plans: []*plan.Plan{few}, NoAdvice: true}),
		"a pipe":                 show(false, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true}),
		"-full":                  show(true, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true, Full: true}),
	} {
		require.Contains(t, whole, `# mutex.shard["194"] will be created`, name)
		require.NotContains(t, whole, "-full", name)
	}
	concise := show(true, planview.Plan{Plans: []*plan.Plan{many}, NoAdvice: true, Concise: true})
	require.Contains(t, concise, "# mutex.shard will be created, 196 times")
}

func TestChangesThatWereMadeTogetherAreCounted(t *testing.T) {
	var out strings.Builder
	v := view.NewHuman(view.Stream{Writer: &out}, view.Stream{Writer: &out})
	var all planview.Together
	for i := range 4 {
		all.Add("main", event.Applied{Addr: `mutex.shard["a"]`, Path: "/a", Action: plan.Delete, Elapsed: time.Duration(i) * time.Second})
		v.Show(all)
	}
	one := "mutex.shard[\"a\"]: Destruction complete after %ds [path=/a]\n"
	require.Equal(t, fmt.Sprintf(one+one+one+one+one+one, 0, 0, 1, 0, 1, 2)+"mutex.shard: Destruction complete after 3s, 4 times\n", out.String())
}

func TestATreeIsShownAsTextAndAsJSON(t *testing.T) {
	golden(t, "show.txt", text(planview.Live{liveTree()}))
	golden(t, "show.json", document(planview.Live{liveTree()}))
}

func applyEvents() []event.Event {
	info := failure.LockInfo{ID: "7f3a", Path: "/locks/.locktree/apply/p", Operation: "OperationTypeApply", Who: "ann@host", Version: "1.2.3", Created: clock()}
	return []event.Event{
		event.LockWaiting{Info: &info}, event.LockAcquired{Info: info}, event.Scaffolded{Paths: []string{"/locks", "/locks/.locktree"}}, event.Verified{Pins: 3},
		event.Started{Addr: "mutex.a", Path: "/a", Action: plan.Create}, event.Started{Addr: "mutex.b", Path: "/b", Action: plan.Delete},
		event.Committed{ApplyID: "7f3a", Ops: 4, Bytes: 900, Resolved: true, Elapsed: time.Second},
		event.Applied{Addr: "mutex.a", Path: "/a", Action: plan.Create, Elapsed: 1900 * time.Millisecond}, event.Applied{Addr: "mutex.b", Path: "/b", Action: plan.Delete},
		event.ACLPhase{Total: 1}, event.ACLApplied{Addr: "mutex.c", Path: "/c"},
		event.Failed{Addr: "mutex.d", Path: "/d", Action: plan.Update, Err: nil},
	}
}

func TestEachEventOfAnApplyIsShown(t *testing.T) {
	outputs := []plan.Output{{Name: "path", Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"/a"`)}, {Name: "secret", Sensitive: true}}
	human, out, err := capture()
	stream := view.NewStream(out, "1.2.3", clock)
	for _, e := range applyEvents() {
		human.Show(planview.Event{Ensemble: "main", Event: e})
	}
	human.Show(planview.Applied{Operation: "apply", Counts: plan.Counts{Add: 2, Change: 1, Destroy: 2}, Outputs: outputs})
	human.Show(planview.Applied{Operation: "destroy", Counts: plan.Counts{Destroy: 1}})
	golden(t, "apply.txt", "-- stdout --\n"+out.String()+"-- stderr --\n"+err.String())

	out.Reset()
	for _, e := range applyEvents() {
		stream.Show(planview.Event{Ensemble: "main", Event: e})
	}
	stream.Show(planview.Applied{Operation: "apply", Counts: plan.Counts{Add: 2, Change: 1, Destroy: 2}, Outputs: outputs})
	golden(t, "apply.jsonl", out.String())
}
