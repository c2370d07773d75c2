package apply_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

func inKeeper(t testing.TB) *site { return inMemory(t, zktest.WithKeeper()) }

func TestATreeIsAppliedAndDestroyedOnAKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inKeeper(t)
		c := s.provisioner()
		require.Equal(t, recipes.ServerKeeper, s.session(c).ServerKind())
		s.apply(c, s.shop())
		require.False(t, s.plan(c, s.shop()).HasChanges())
		worker := s.dial("worker:w")
		x, err := worker.Mutex(s.root + "/pay/ledger").TryLock(t.Context())
		require.NoError(t, err)
		p := s.plan(c, s.tree())
		require.Contains(t, fmt.Sprint(p.Problems), "in_use")
		require.NoError(t, x.Unlock(t.Context()))
		s.apply(c, rich(s))
		require.False(t, s.plan(c, rich(s)).HasChanges())
		p = s.plan(c, s.shop(), plan.Options{Destroy: true})
		_, err = executor(c).Run(t.Context(), p)
		require.NoError(t, err)
		n, _ := s.server.Get(s.root)
		require.Equal(t, []string{".locktree"}, n.Children)
	})
}

// A Keeper drops entries of other schemes without a word: whoever is named there has no rights.
func TestSchemesThatAKeeperDropsAreAPlanError(t *testing.T) {
	address := kind.ACL{Scheme: "ip", ID: "10.1.2.3", Perms: kind.PermRead}
	certificate := kind.ACL{Scheme: "x509", ID: "CN=ci", Perms: kind.PermRead}
	for name, change := range map[string]func(*plan.Tree){
		"of a lock":     func(tree *plan.Tree) { tree.Nodes[3].ACL = append(tree.Nodes[3].ACL, address) },
		"of contenders": func(tree *plan.Tree) { tree.Nodes[3].Payload.ChildACL = kind.List{admin, crew, certificate} },
		"of readers": func(tree *plan.Tree) {
			tree.Intent.Access = &plan.Access{Admins: kind.List{admin}, Readers: kind.List{certificate}}
		},
		"of another kind": func(tree *plan.Tree) {
			tree.Nodes[3].ACL = append(tree.Nodes[3].ACL, kind.ACL{Scheme: "sasl", ID: "ci", Perms: kind.PermRead})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keeper := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					s := inMemory(t)
					if keeper {
						s = inKeeper(t)
					}
					c := s.provisioner()
					tree := s.shop()
					change(tree)
					var found []plan.Problem
					for _, p := range s.plan(c, tree).Problems {
						if p.Code == plan.ProblemScheme {
							found = append(found, p)
						}
					}
					if !keeper {
						require.Empty(t, found)
						return
					}
					require.Len(t, found, 1)
					require.Equal(t, plan.Error, found[0].Severity)
					require.Contains(t, found[0].Detail, "digest")
				})
			}
		})
	}
}

// On a Keeper every lost reply is a lost session, and the apply lock with it.
func TestCrashAtEveryWriteOfAnApplyOnAKeeperConvergesInOneRun(t *testing.T) {
	crashAtEveryWrite(t, zktest.WithKeeper())
}

func TestCrashAtEveryWriteOfEveryKindOfApplyOnAKeeper(t *testing.T) {
	effort.Proof(t, effort.Unraced) // the goroutines are those of the same scenes on ZooKeeper, which the race detector sees
	i := 0
	for name, c := range scenes {
		if c.reads > 0 {
			continue // Keepers read requests of any length that is sent here
		}
		atEveryWrite(t, name, &i, c.writes, 3, func(t *testing.T, k int, fault zktest.Fault, dies bool) (struck bool) {
			synctest.Test(t, func(t *testing.T) {
				s := inKeeper(t)
				c0 := s.provisioner()
				struck = s.strike(c0, c.stage(t, s, c0), k, fault, dies)
			})
			return struck
		})
	}
}
