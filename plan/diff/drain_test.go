package diff_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// drained is a tree with one lock an interrupted apply left draining.
func drained(t *testing.T) (*model, *plan.Node) {
	m := newModel(testRoot, testStack)
	lock := declare(testRoot+"/a", kind.Mutex, addr("a.mutex"))
	m.apply(t, diff.Compare(nil, declared(lock), plan.Options{Identities: us}))
	current := m.read(t, testRoot, testStack)
	p := *current.Nodes[0].Payload
	p.State = kind.StateDraining
	data, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, m.multi([]tx.Op{{Kind: tx.OpSet, Path: lock.Path, Data: data, Version: 0}}))
	return m, lock
}

// A lock nobody gets into must never be passed over in silence, whatever the plan
// does about it.
func TestLockLeftDrainingIsNeverPassedOver(t *testing.T) {
	beside := plan.Intent{Elsewhere: []*plan.Tree{declared(declare(testRoot+"/b", kind.Mutex, addr("b.mutex")))}}
	for name, c := range map[string]struct {
		declared  bool
		elsewhere bool // declared, at another path
		intent    plan.Intent
		opts      plan.Options
		action    plan.Action
		says      string // of the problem; "" when the change itself shows it
	}{
		"declared":     {declared: true, action: plan.Update},
		"not declared": {action: plan.Delete, says: "it is deleted when it is idle"},
		"replaced":     {declared: true, opts: plan.Options{Replace: []string{"a.mutex"}}, action: plan.Replace, says: "it is replaced when it is idle"},
		"forgotten":    {intent: plan.Intent{Removals: []plan.Removal{{From: "a.mutex"}}}, action: plan.Forget, says: "opened again before it is forgotten"},
		"not planned":  {declared: true, intent: beside, opts: plan.Options{Targets: []string{"b.mutex"}}, action: plan.NoOp, says: "leaves it closed"},
		"another path": {elsewhere: true, action: plan.Delete, says: "it is replaced when it is idle"},
	} {
		t.Run(name, func(t *testing.T) {
			m, lock := drained(t)
			tree := declared()
			if c.declared {
				tree = declared(lock)
			}
			if c.elsewhere {
				tree = declared(declare(testRoot+"/b", kind.Mutex, addr("a.mutex")))
			}
			tree.Intent = c.intent
			c.opts.Identities, c.opts.AllowMassDestroy = us, true
			p := diff.Compare(m.read(t, testRoot, testStack), tree, c.opts)
			require.Empty(t, p.Drifted, "an apply's own doing is no drift")
			i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Path == lock.Path })
			at := p.Changes[i]
			require.Equal(t, c.action, at.Action)
			var told []string
			for _, q := range p.Problems {
				if q.Code == problem.Draining {
					require.Equal(t, problem.Warning, q.Severity)
					told = append(told, q.Detail)
				}
			}
			if c.says == "" {
				require.True(t, at.Revive)
				require.Empty(t, told)
				return
			}
			require.Len(t, told, 1)
			require.Contains(t, told[0], c.says)
		})
	}
}

// What is forgotten is no stack's any more: nobody would ever open it again.
func TestForgottenLockIsNotLeftDraining(t *testing.T) {
	m, lock := drained(t)
	tree := declared()
	tree.Intent.Removals = []plan.Removal{{From: lock.Addr}}
	m.apply(t, diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us, AllowMassDestroy: true}))
	payload, err := kind.Decode(m.nodes[lock.Path].data)
	require.NoError(t, err)
	require.Empty(t, payload.Owner.Stack)
	require.Equal(t, kind.StateActive, payload.State)
}

// "Declare it again to have it opened", of a lock that is declared, in a destroy.
func TestADestroyDoesNotAskForADeclarationThatIsThere(t *testing.T) {
	m := applied(t, base())
	current := m.read(t, testRoot, testStack)
	current.Find("/locks/solo").Payload.State = kind.StateDraining
	p := diff.Compare(current, base(), plan.Options{Identities: us, Destroy: true})
	require.Equal(t, problem.Draining, p.Problems[len(p.Problems)-1].Code)
	require.NotContains(t, p.Problems[len(p.Problems)-1].Detail, "Declare it again")
}
