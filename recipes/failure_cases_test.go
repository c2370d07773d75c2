package recipes_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The case numbers are those of testdata/failure-cases.md: bugs of other clients, against which this package was written.

// at matches the operation on a contender of /m or on /m itself.
func at(op string) func(zktest.Request) bool {
	return func(r zktest.Request) bool { return r.Op == op && strings.HasPrefix(r.Path, "/m") }
}

// nextIsServed requires that another client gets the lock, that is, that nothing was left in the queue.
func (l *lab) nextIsServed(m string) {
	l.T.Helper()
	l.Unlock(l.Lock(bounded(time.Minute, l.Client("next").Mutex(m).Lock)))
	l.vacant(m)
}

// warm takes locks and gives them back, so that their declarations are known.
func (l *lab) warm(takes ...taking) {
	l.T.Helper()
	for _, take := range takes {
		l.Unlock(l.Lock(take))
	}
	l.Settle()
}

func TestALostCreateReplyIsResolvedToItsNodesAndTheLockContinues(t *testing.T) { // cases 1, 47: samuel #229, CURATOR-45, -335, -315, -462
	for name, fault := range map[string]zktest.Fault{"applied": zktest.DropReply, "not applied": zktest.CutBefore, "half a reply": zktest.CutAt(9),
		"applied when its client has moved on": zktest.Hold} {
		t.Run(name, func(t *testing.T) {
			forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
				take := way.Take(l.Client("a"))
				l.warm(take)
				rule := l.Srv.Inject(zktest.Once(l.enqueues(way)), fault)
				if fault == zktest.Hold {
					go func() { <-rule.Hit(); l.Srv.Disconnect(0); time.Sleep(100 * time.Millisecond); rule.Release() }()
				}
				x := l.Lock(take)
				require.Equal(t, 1, rule.Hits())
				l.Settle()
				require.ElementsMatch(t, x.Nodes(), l.nodes())
				l.Unlock(x)
				l.NothingLeft()
				l.Unlock(l.Lock(way.Take(l.Client("next"))))
			})
		})
	}
}

func TestALostReplyWhoseSearchFailsTooLeavesNoOrphan(t *testing.T) { // case 4, 5: CURATOR-264, samuel #237
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m.Lock)
		creates := 0
		l.Srv.Inject(func(r zktest.Request) bool {
			if at("create")(r) {
				creates++
			}
			return at("create")(r) && creates == 1
		}, zktest.DropReply)
		searches := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "multi" && r.N <= 4 }, zktest.CutBefore)
		x := l.Lock(m.Lock)
		require.Equal(t, 4, searches.Hits())
		require.Equal(t, 1, creates)
		require.Len(t, l.Children("/m"), 1)
		l.Unlock(x)
		l.nextIsServed("/m")
	})
}

func TestCancellingACreateInFlightReturnsAtOnceAndLeavesNothing(t *testing.T) { // cases 3, 47: CURATOR-79, -62
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		l.warm(way.Take(c))
		held := l.Srv.Inject(zktest.Once(l.enqueues(way)), zktest.Hold)
		ctx, cancel := context.WithCancel(context.Background())
		got := async(func() (*recipes.Lease, error) { return way.Take(c)(ctx) })
		<-held.Hit()
		cancel()
		start := time.Now()
		require.ErrorIs(t, (<-got).Err, context.Canceled)
		require.Less(t, time.Since(start), oneWay)
		held.Release()
		time.Sleep(time.Second)
		l.NothingLeft()
	})
}

func TestTenThousandFailedSearchesAreOneGoroutine(t *testing.T) { // case 6: Curator's finder recursed to a stack overflow
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
		m := c.Mutex(l.Mutex())
		l.warm(m.Lock)
		s := l.live(c)
		ks := must(m.Contenders(t.Context(), s, 10_000))(t)
		rule := l.Srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeThrottled))
		before := l.Goroutines()
		gone := c.Remove(s, ks...)
		time.Sleep(10 * time.Second)
		require.Positive(t, rule.Hits())
		require.LessOrEqual(t, l.Goroutines(), before+5)
		require.NoError(t, c.Close())
		gone.Wait() // every one is answered when the session is over
	})
}

func TestAMissingOrForeignNodeIsNotProvisionedAndNothingIsWritten(t *testing.T) { // case 9
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		err := l.Refused(c.Mutex("/nowhere/lock").Lock, recipes.ErrNotProvisioned)
		require.ErrorContains(t, err, "/nowhere/lock")
		require.NoError(t, l.Srv.Create("/foreign", []byte("10.0.0.1")))
		err = l.Refused(c.Mutex("/foreign").Lock, recipes.ErrNotProvisioned)
		require.ErrorIs(t, err, kind.ErrForeign)
		l.RWLock()
		err = l.Refused(c.Mutex("/rw").Lock, recipes.ErrKindMismatch)
		require.ErrorContains(t, err, "declared as rwlock by ")
		require.NotContains(t, err.Error(), `stack "" ()`, "one whose stack has let it go")
		payload := &kind.Payload{Params: kind.RWLock.New(), State: kind.StateActive}
		require.NoError(t, l.Srv.Provision("/let-go", payload))
		_, err = c.Mutex("/let-go").Lock(t.Context())
		require.ErrorContains(t, err, "declared as rwlock by no stack, this program opens it as mutex")
		payload.Owner = kind.Owner{Stack: "shop", Addr: "rwlock.x"}
		require.NoError(t, l.Srv.Provision("/let-go-2", payload))
		_, err = c.Mutex("/let-go-2").Lock(t.Context())
		require.ErrorContains(t, err, `declared as rwlock by stack "shop" (rwlock.x), this`)
		l.Empty("/foreign", "/rw")
		_, there := l.Srv.Get("/nowhere")
		require.False(t, there)
		// The node is provisioned later: the next try finds it, because the client remembers no failure.
		l.Declare("/nowhere/lock", kind.Mutex.New())
		l.Unlock(l.Lock(c.Mutex("/nowhere/lock").Lock))
	})
}

func TestJunkChildrenAreIgnored(t *testing.T) { // case 11: CURATOR-43, samuel #64; case 10: go-zookeeper panics on "_c_x"
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		for _, junk := range []string{"config", "0-meta", "_c_x", "lock-", "lock-12", "sub/lock-0000000000", "lock-99999999999"} {
			require.NoError(t, l.Srv.Create(m+"/"+junk, nil))
		}
		x := l.Lock(l.Client("a").Mutex(m).Lock)
		w := l.Locking(l.Client("b").Mutex(m))
		notYet(t, w, "held")
		l.Unlock(x)
		require.NoError(t, (<-w).Err)
		in := l.look(l.Client("i"), m)
		require.Len(t, in.Junk, 7)
		require.Len(t, in.Holders, 1)
	})
}

func TestAParentThatVanishesBetweenTwoTriesEndsTheLock(t *testing.T) { // case 9: CURATOR-180, -308, -724
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m.Lock)
		rule := l.Srv.Inject(zktest.Once(at("create")), zktest.CutBefore)
		got := async(func() (*recipes.Lease, error) { return m.Lock(context.Background()) })
		<-rule.Hit()
		require.NoError(t, l.Srv.Delete("/m"))
		require.ErrorIs(t, (<-got).Err, recipes.ErrNotProvisioned)
		l.Mutex()
		l.nextIsServed("/m")
	})
}

func TestAWaiterWhoseWholeLockIsDeletedIsTold(t *testing.T) { // case 9: a waiter must not hang when the parent vanishes
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		w := l.Locking(l.Client("b").Mutex("/m"))
		require.NoError(t, l.Srv.Delete("/m"))
		start := time.Now()
		require.ErrorIs(t, (<-w).Err, recipes.ErrLost)
		<-x.Context().Done()
		require.LessOrEqual(t, time.Since(start), 6*oneWay)
	})
}

func TestALeaderChangeThatProlongsSessionsProlongsNoLease(t *testing.T) { // case 30: a new leader gives every session its full timeout again
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		x := l.Lock(c.Mutex(l.Mutex()).Lock)
		rival := l.Locking(l.Client("b").Mutex("/m"))
		l.Srv.Partition(l.SessionID(c), zktest.Both)
		cut := time.Now()
		told := make(chan time.Time, 1)
		context.AfterFunc(x.Context(), func() { told <- time.Now() })
		time.Sleep(4 * time.Second)
		l.Srv.SetReadOnly(true) // no quorum, then a new leader
		l.Srv.SetReadOnly(false)
		r := l.Granted(rival)
		lost := <-told
		require.LessOrEqual(t, lost.Sub(cut), 6*time.Second, "half a session timeout after the last commit, whatever servers do")
		require.GreaterOrEqual(t, r.At.Sub(cut), 16*time.Second, "the scenario needs the session to be prolonged")
		require.Greater(t, r.V.Token(), x.Token())
		l.Unlock(r.V)
	})
}

func TestUnlockOfANodeThatIsGoneIsDone(t *testing.T) { // case 39: NoNode is what a release wants
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		l.Settle()
		l.Srv.InjectEvent(func(zktest.Event) bool { return true }, zktest.DropEvent) // otherwise the holder would know
		require.NoError(t, l.Srv.Delete(x.Node()))
		l.Unlock(x)
		l.Unlock(x)
	})
}

func TestAHeartbeatInFlightDoesNotKeepARelease(t *testing.T) { // case 40: pglock #36 marked the lock released, and skipped the release
	for name, fault := range map[string]zktest.Fault{"held back": zktest.Hold, "cut": zktest.CutBefore, "its answer lost": zktest.DropReply} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			c := l.Client("a")
			x := l.Lock(c.Mutex(l.Mutex()).Lock)
			id := l.SessionID(c)
			beat := l.Srv.Inject(zktest.Once(at("multi")), fault)
			<-beat.Hit()
			released := async(func() (struct{}, error) { return struct{}{}, x.Unlock(context.Background()) })
			time.Sleep(oneWay)
			beat.Release()
			require.NoError(t, (<-released).Err)
			l.Empty("/m")
			require.Equal(t, id, l.SessionID(c), "released by a delete, not with the session")
		})
	}
}

func TestTheEndOfTheSequenceStartsNoStormOfElections(t *testing.T) { // case 59: kazoo #730
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		e := l.Election()
		for _, dir := range []string{m, e} {
			require.NoError(t, l.Srv.SetCreateCount(dir, recipes.LastSequence))
		}
		holder := l.Client("holder")
		x := l.Lock(holder.Mutex(m).Lock)
		leading := l.Lock(holder.Election(e).Campaign)
		late := l.Client("late")
		l.Srv.ResetCounts()
		for range 10 {
			l.Refused(late.Mutex(m).Lock, recipes.ErrSequenceExhausted)
			err := late.Election(e).Lead(t.Context(), func(context.Context, *recipes.Lease) error { return nil })
			require.ErrorIs(t, err, recipes.ErrSequenceExhausted)
		}
		time.Sleep(time.Hour)
		n := l.Srv.SessionCounts(l.SessionID(late))
		require.LessOrEqual(t, n.ByOp["create"], 20, "one try each, and nobody tries by itself")
		require.NoError(t, x.Context().Err())
		require.NoError(t, leading.Context().Err())
		require.Len(t, l.Children(m), 1)
		require.Len(t, l.Children(e), 1)
	})
}

func TestATreeMadeAnewBetweenTheStepsIsQueuedInAndNumbersTokensOn(t *testing.T) { // failure matrix, row 34
	for op, fault := range map[string]zktest.Fault{"create": zktest.Hold, "getChildren2": zktest.Hold, "getData": zktest.Hold} {
		runInLab(t, op, func(t *testing.T, l *lab) {
			m := l.Client("a").Mutex(l.Mutex())
			l.warm(m.Lock)
			first := l.Lock(l.Client("b").Mutex("/m").Lock)
			token := first.Token()
			l.Unlock(first)
			rule := l.Srv.Inject(zktest.Once(at(op)), fault)
			got := async(func() (*recipes.Lease, error) {
				x, err := m.Lock(context.Background())
				if err == nil {
					err = x.Verify(context.Background())
				}
				return x, err
			})
			<-rule.Hit()
			time.Sleep(oneWay)
			require.NoError(t, l.Srv.Delete("/m"))
			l.Mutex()
			rule.Release()
			r := <-got
			time.Sleep(4 * oneWay) // until the client knows whether its node was deleted
			if r.Err == nil && r.V.Context().Err() == nil {
				require.Greater(t, r.V.Token(), token)
				require.Len(t, l.Children("/m"), 1)
				l.Unlock(r.V)
			} else if r.Err == nil {
				require.ErrorIs(t, context.Cause(r.V.Context()), recipes.ErrLost)
			} else {
				require.True(t, errors.Is(r.Err, recipes.ErrLost) || errors.Is(r.Err, recipes.ErrNotProvisioned), "%v", r.Err)
			}
			x := l.Lock(m.Lock)
			require.Greater(t, x.Token(), token)
			l.Unlock(x)
			l.nextIsServed("/m")
		})
	}
}

func TestAQueueThatIsClosedToAWaiterTellsItAndKeepsNoNode(t *testing.T) { // failure matrix, row 38: ACL revoked while waiting
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		first, second := l.Foreign(m, "lock-0000000000", ""), l.Foreign(m, "lock-0000000001", "")
		require.NoError(t, l.Srv.SetCreateCount(m, 2))
		w := l.Locking(l.Client("a").Mutex(m))
		admin := l.session(l.Client("admin", func(c *recipes.Config) { c.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "admin:x"}} }))
		_, err := admin.SetACL(t.Context(), m, zk.DigestACL(zk.PermAll, "admin", "x"), -1)
		require.NoError(t, err)
		require.NoError(t, l.Srv.Delete(second)) // our predecessor: the client must list the queue, and may not
		r := <-w
		require.ErrorIs(t, r.Err, zk.ErrNoAuth)
		require.ErrorContains(t, r.Err, m)
		require.NoError(t, l.Srv.Delete(first))
		_, err = admin.SetACL(t.Context(), m, zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Empty(t, l.Children(m), "the node is deleted as soon as that is allowed")
	})
}

func TestALockWaitsForServersThatComeUpLate(t *testing.T) { // failure matrix, row 27
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		l.Srv.RefuseDials(true)
		start := time.Now()
		_, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: l.Srv.DialContext})
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		require.Equal(t, 5*time.Second, time.Since(start), "ConnectTimeout")
		l.Srv.RefuseDials(false)
		c := l.Client("a")
		l.Srv.RefuseDials(true)
		l.Srv.Expire(l.SessionID(c))
		start = time.Now()
		ctx := l.Within(7 * time.Second)
		_, err = c.Mutex(m).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 7*time.Second, time.Since(start), float64(100*time.Millisecond))
		got := async(func() (*recipes.Lease, error) { return c.Mutex(m).Lock(context.Background()) })
		time.Sleep(time.Hour)
		notYet(t, got, "nobody is up")
		l.Srv.RefuseDials(false)
		l.Unlock(l.Got(got))
	})
}

func TestDeclaredIsReadAgainAfterALostWatch(t *testing.T) { // failure matrix, row 9: it changed while there was no connection
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("0").Mutex(l.Mutex()).Lock)
		c := l.Client("1")
		w := l.Locking(c.Mutex("/m"))
		l.CutOff(l.SessionID(c))
		time.Sleep(time.Second)
		require.NoError(t, l.Srv.Delete(x.Node()))
		l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) { p.Gen++ })
		l.Srv.RefuseDials(false)
		l.Unlock(l.Got(w))
	})
}

// TestFailureCasesNameTests checks that testdata/failure-cases.md is complete and names only tests that exist.
func TestFailureCasesNameTests(t *testing.T) {
	page, err := os.ReadFile("testdata/failure-cases.md")
	require.NoError(t, err)
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			exist[strings.TrimPrefix(filepath.Base(filepath.Dir(path))+"."+m[1], "..")] = true // tests of this directory are named without it
		}
		return err
	}))
	name := regexp.MustCompile(`(?:\w+\.)?\bTest\w+`)
	for _, n := range name.FindAllString(strings.ReplaceAll(string(page), "`TestFailureCases", "`"), -1) {
		require.True(t, exist[n] || n == "directory.Test", "%s is on the page, and nowhere else", n)
	}
	cases, rows, ok := strings.Cut(string(page), "## The failure matrix")
	require.True(t, ok)
	listed := func(table string) (numbers []int) {
		for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|[^|]+\|([^|]+)\|`).FindAllStringSubmatch(table, -1) {
			require.NotEmpty(t, name.FindString(m[2]), "no test for %s", m[1])
			n := must(strconv.Atoi(m[1]))(t)
			numbers = append(numbers, n)
		}
		return numbers
	}
	var want []int
	for n := 1; n <= 59; n++ {
		want = append(want, n)
	}
	require.Equal(t, want, listed(cases))
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 19, 20, 21, 22, 23, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54}, listed(rows))
}

// TestProofsAreWhereThePageSays checks the table of docs/safety.md: each link leads to a file that declares the name in it, with a comment.
func TestProofsAreWhereThePageSays(t *testing.T) {
	page := must(os.ReadFile("../docs/safety.md"))(t)
	_, table, ok := strings.Cut(string(page), "## Where the proofs are")
	require.True(t, ok)
	links := regexp.MustCompile(`\[(?:(\w+)\.)?(\w+)\]\(\.\./recipes/([^)]+)\)`).FindAllStringSubmatch(table, -1)
	require.Len(t, links, strings.Count(table, "]("))
	for _, link := range links {
		of, name, file := link[1], link[2], link[3]
		source := must(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments))(t)
		proven := false
		for _, d := range source.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				receiver := ""
				if d.Recv != nil {
					ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok && receiver == "" {
							receiver = id.Name
						}
						return true
					})
				}
				proven = proven || d.Name.Name == name && receiver == of && d.Doc != nil
			case *ast.GenDecl:
				for _, s := range d.Specs {
					named, ok := s.(*ast.TypeSpec)
					proven = proven || ok && named.Name.Name == name && of == "" && d.Doc != nil
				}
			}
		}
		require.True(t, proven, "%s has no declaration of %s with a comment", file, strings.TrimPrefix(of+"."+name, "."))
	}
}
