package recipes_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func (l *lab) campaigning(c *recipes.Client) <-chan result[*recipes.Lease] {
	return l.Waiting(c.Election("/e").Campaign)
}

// observing follows the leader until end is called. An error is a state, too.
func (l *lab) observing(c *recipes.Client) (states chan recipes.Contender, end func()) {
	states = make(chan recipes.Contender, 10)
	ctx, cancel := context.WithCancel(l.T.Context())
	go func() {
		defer close(states)
		for k, err := range c.Election("/e").Observe(ctx) {
			if err != nil {
				k.ID = "error"
			}
			states <- k
		}
	}()
	return states, func() {
		cancel()
		for range states {
		}
	}
}

func TestCandidatesLeadInTurnUnderCuratorsNames(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		alpha := l.Client("alpha")
		e := alpha.Election(l.Election())
		first := l.Lock(e.Campaign)
		require.Regexp(t, `^/e/_c_[0-9a-f-]{36}-latch-0000000000$`, first.Node())
		n, _ := l.Srv.Get(first.Node())
		require.Equal(t, "alpha", string(n.Data), "LeaderLatch.getParticipants decodes the data as the id")
		b := l.campaigning(l.Client("beta"))
		in := l.look(alpha, "/e")
		require.Equal(t, []string{"alpha", "beta"}, []string{in.Holders[0].ID, in.Waiters[0].ID})
		require.NoError(t, first.Unlock(t.Context()))
		second := l.Granted(b)
		require.Greater(t, second.V.Token(), first.Token())
		leader, ok, err := e.Leader(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "beta", leader.ID)
		require.Equal(t, second.V.Token(), leader.Token)
	})
}

func TestObserveTellsEveryLastStateAndNobody(t *testing.T) { // case 56: etcd's Observe misses deletions (#18163)
	for name, hidden := range map[string]bool{"leaders it may read": false, "leaders it may not read": true} { // the listing shows who leads
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Election()
			watcher := l.Client("watcher")
			l.Srv.Inject(func(r zktest.Request) bool {
				return hidden && r.Op == "getData" && strings.HasPrefix(r.Path, "/e/")
			}, zktest.Fail(zktest.CodeNoAuth))
			states, end := l.observing(watcher)
			require.Empty(t, (<-states).Path)
			a := l.elected("a")
			require.Equal(t, a.Node(), (<-states).Path)
			next := l.campaigning(l.Client("b"))
			l.Unlock(a)
			b := l.Got(next)
			require.Equal(t, b.Node(), (<-states).Path)
			l.Srv.Expire(l.SessionID(watcher))
			l.Unlock(b)
			for s := range states { // the expiry shows as an error or not at all; the last state must come
				if s.ID == "" && s.Path == "" {
					break
				}
				require.True(t, s.ID == "error" || s.Path == b.Node(), s)
			}
			end()
		})
	}
}

func TestAnObserverNoticesAChangeWhoseEventIsLost(t *testing.T) { // failure matrix, row 8
	for name, c := range map[string]struct {
		event  string // the path whose events are lost, "" = that of the leader
		change func(t *testing.T, l *lab, leader *recipes.Lease) *recipes.Lease
		then   string
	}{
		"the leader goes": {"", func(t *testing.T, _ *lab, x *recipes.Lease) *recipes.Lease {
			require.NoError(t, x.Unlock(t.Context()))
			return nil
		}, ""},
		"the first one appears": {"/e", func(t *testing.T, l *lab, _ *recipes.Lease) *recipes.Lease { return l.elected("b") }, "b"},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Election()
			var leader *recipes.Lease
			path := c.event
			if path == "" {
				leader = l.elected("a")
				path = leader.Node()
			}
			watcher := l.Client("watcher")
			states, end := l.observing(watcher)
			<-states
			id := l.SessionID(watcher)
			lost := l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Session == id && e.Path == path }, zktest.DropEvent)
			leader = c.change(t, l, leader)
			start := time.Now()
			require.Equal(t, c.then, within(t, time.Hour, func() string { return (<-states).ID }))
			require.Equal(t, 1, lost.Hits())
			require.LessOrEqual(t, time.Since(start), 12*time.Second+6*oneWay, "a session timeout")
			time.Sleep(2 * time.Minute)
			require.Empty(t, states, "nothing new")
			end()
			if leader != nil {
				require.NoError(t, leader.Unlock(t.Context()))
			}
		})
	}
}

// elected makes a new client the leader.
func (l *lab) elected(id string) *recipes.Lease {
	l.T.Helper()
	return l.Lock(l.Client(id).Election("/e").Campaign)
}

func TestLeadGivesUpOnlyAfterItsFunctionHasReturned(t *testing.T) { // case 57: client-go releases while the leader still runs
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		a := l.Client("a")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			done <- a.Election("/e").Lead(ctx, func(ctx context.Context, _ *recipes.Lease) error {
				close(started)
				<-ctx.Done()
				time.Sleep(5 * time.Second) // still cleaning up
				return nil
			})
		}()
		<-started
		b := l.campaigning(l.Client("b"))
		cancel()
		time.Sleep(4 * time.Second)
		notYet(t, b, "elected while the old leader still runs")
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, (<-b).Err)
	})
}

func TestLeadStandsAgainWhereAServerShedTheRequest(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		shed := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "create" && r.N <= 3 }, zktest.Fail(zktest.CodeThrottled))
		err := l.Client("a").Election("/e").Lead(t.Context(), func(context.Context, *recipes.Lease) error { return errors.New("finished") })
		require.ErrorContains(t, err, "finished")
		require.Equal(t, 3, shed.Hits())
	})
}

// atRest requires that in the last minute no candidate joined or left the queue. Candidates may look at it once a session timeout, to make
// sure that they have missed nothing.
func (l *lab) atRest() {
	l.T.Helper()
	counts := l.Srv.Counts().ByOp
	require.Zero(l.T, counts["create"]+counts["delete"], "the election does not come to rest: %v", counts)
	require.LessOrEqual(l.T, counts["getChildren2"], 6, "the candidates go on looking: %v", counts)
}

func TestTwoCandidatesThatReconnectTogetherDoNotDethroneEachOther(t *testing.T) { // case 51: CURATOR-645, CURATOR-504
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		a, b := l.Client("a"), l.Client("b")
		lead := l.Lock(a.Election("/e").Campaign)
		waiting := l.campaigning(b)
		places := l.Queue("/e")
		for range 10 {
			l.Srv.Disconnect(l.SessionID(a))
			l.Srv.Disconnect(l.SessionID(b))
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, places, l.Queue("/e"), "a candidate gave its place up for a lost connection")
		require.NoError(t, lead.Context().Err())
		notYet(t, waiting, "elected although the leader never left")
		l.Srv.ResetCounts()
		time.Sleep(time.Minute)
		l.atRest()
		require.NoError(t, lead.Unlock(t.Context()))
		require.NoError(t, (<-waiting).Err)
	})
}

func TestCandidatesWhoseSessionsExpireTogetherElectOneAndStop(t *testing.T) { // case 51, with the places lost
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		a, b := l.Client("a"), l.Client("b")
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var tokens []uint64
		done := make(chan error, 2)
		for _, c := range []*recipes.Client{a, b} {
			go func() {
				done <- c.Election("/e").Lead(ctx, func(ctx context.Context, x *recipes.Lease) error {
					mu.Lock()
					tokens = append(tokens, x.Token())
					mu.Unlock()
					<-ctx.Done()
					return nil
				})
			}()
		}
		for range 5 {
			time.Sleep(10 * time.Second)
			l.Srv.Expire(l.SessionID(a))
			l.Srv.Expire(l.SessionID(b))
		}
		time.Sleep(10 * time.Second)
		require.Len(t, l.Children("/e"), 2)
		l.Srv.ResetCounts()
		time.Sleep(time.Minute)
		l.atRest()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.ErrorIs(t, <-done, context.Canceled)
		require.GreaterOrEqual(t, len(tokens), 6)
		require.IsIncreasing(t, tokens) // the client that first learns of its session's early end may lead before the other learns of its own
	})
}

func TestAnElectionRemovedWhileACandidateIsAwayEndsItsCampaignAndIsNotRecreated(t *testing.T) { // case 53: CURATOR-724
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		a := l.Client("a")
		ended := make(chan error, 1)
		led := make(chan struct{}, 2)
		ctx, cancel := context.WithCancel(t.Context())
		lead := func() {
			ended <- a.Election("/e").Lead(ctx, func(ctx context.Context, _ *recipes.Lease) error {
				led <- struct{}{}
				<-ctx.Done()
				return nil
			})
		}
		go lead()
		<-led
		id := l.SessionID(a)
		l.Srv.Partition(id, zktest.Both)
		l.Srv.Expire(id)
		require.NoError(t, l.Srv.Delete("/e"))
		require.ErrorIs(t, <-ended, recipes.ErrNotProvisioned)
		_, exists := l.Srv.Get("/e")
		require.False(t, exists, "a program made a lock nobody declared")
		l.Election()
		go lead()
		<-led
		require.Len(t, l.Children("/e"), 1, "declared again, it works again")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestACandidateThatVanishesWhileTheyAreListedIsLeftOut(t *testing.T) { // case 54: CURATOR-358, CURATOR-436
	for name, look := range map[string]func(*recipes.Client, *recipes.Election) (string, error){
		"candidates": func(c *recipes.Client, _ *recipes.Election) (string, error) {
			in, err := inspect.Lock(context.Background(), c, "/e")
			if err != nil || len(in.Holders) != 1 || len(in.Waiters) > 0 {
				return "", errors.Join(err, errors.New("not one candidate"))
			}
			return in.Holders[0].ID, nil
		},
		"leader": func(_ *recipes.Client, e *recipes.Election) (string, error) {
			l, _, err := e.Leader(context.Background())
			return l.ID, err
		},
		"observe": func(_ *recipes.Client, e *recipes.Election) (string, error) {
			for c, err := range e.Observe(context.Background()) {
				return c.ID, err
			}
			return "", errors.New("nothing observed")
		},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Election()
			first := l.Lock(l.Client("first").Election("/e").Campaign)
			second := l.campaigning(l.Client("second"))
			c := l.Client("watcher")
			e := c.Election("/e")
			held := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == first.Node() }), zktest.Hold)
			seen := async(func() (string, error) { return look(c, e) })
			<-held.Hit()
			require.NoError(t, first.Unlock(t.Context()))
			held.Release()
			r := <-seen
			require.NoError(t, r.Err)
			require.Equal(t, "second", r.V)
			require.NoError(t, (<-second).Err)
		})
	}
}

func TestALeaderThatIsInterruptedStandsAgain(t *testing.T) { // case 55: CURATOR-15, -195, -518, -671 stop electing
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		a := l.Client("a")
		terms, done := make(chan *recipes.Lease), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			done <- a.Election("/e").Lead(ctx, func(ctx context.Context, lead *recipes.Lease) error {
				terms <- lead
				<-ctx.Done()
				time.Sleep(time.Second) // the second interruption comes while the first is dealt with
				return errors.New("interrupted")
			})
		}()
		asked := func(lead *recipes.Lease) { require.NoError(t, l.Srv.Set(lead.Node(), []byte(kind.RevokeMessage))) }
		for name, interrupt := range map[string]func(*recipes.Lease){
			"asked back":             asked,
			"deleted":                func(x *recipes.Lease) { require.NoError(t, l.Srv.Delete(x.Node())) },
			"expired":                func(*recipes.Lease) { l.Srv.Expire(l.SessionID(a)) },
			"asked back twice":       func(x *recipes.Lease) { asked(x); l.Settle(); asked(x) },
			"asked back and deleted": func(x *recipes.Lease) { asked(x); l.Settle(); require.NoError(t, l.Srv.Delete(x.Node())) },
			"deleted and expired":    func(x *recipes.Lease) { require.NoError(t, l.Srv.Delete(x.Node())); l.Srv.Expire(l.SessionID(a)) },
			"expired twice":          func(*recipes.Lease) { l.Srv.Expire(l.SessionID(a)); l.Settle(); l.Srv.Expire(l.SessionID(a)) },
		} {
			x := <-terms
			require.NoError(t, x.Context().Err(), name)
			interrupt(x)
		}
		last := <-terms
		require.NoError(t, last.Context().Err(), "elected again")
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// hooked runs a function on each call of Done. A derived context makes such a call when it is detached from its parent.
type hooked struct {
	context.Context
	then func()
}

func (h hooked) Done() <-chan struct{} {
	h.then()
	return h.Context.Done()
}

func TestAFunctionThatReturnedBeforeTheLossIsNotRunAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		c := l.Client("a")
		returned, runs := (*recipes.Lease)(nil), 0
		ctx := hooked{t.Context(), func() {
			if lead := returned; lead != nil { // after fn has returned, and before the leadership is given up
				returned = nil
				require.NoError(t, l.Srv.Delete(lead.Node()))
				<-lead.Context().Done()
			}
		}}
		err := c.Election("/e").Lead(ctx, func(_ context.Context, lead *recipes.Lease) error {
			require.NotZero(t, lead.Token())
			runs++
			if runs == 1 {
				returned = lead
			}
			return nil
		})
		require.Equal(t, 1, runs)
		require.NoError(t, err, "it led until its function had returned")
		time.Sleep(time.Minute)
		l.Empty("/e")
	})
}

// A function that ignores its context and goes on learns of the loss when it is run again.
func TestAFunctionThatReturnsAfterTheLossIsRunAgainWhateverItReturns(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		runs := 0
		err := l.Client("a").Election("/e").Lead(t.Context(), func(_ context.Context, lead *recipes.Lease) error {
			if runs++; runs == 1 {
				require.NoError(t, l.Srv.Delete(lead.Node()))
				<-lead.Context().Done()
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 2, runs)
	})
}
