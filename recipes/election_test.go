package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func (l *lab) campaigning(c *recipes.Client) <-chan result[*recipes.Lease] {
	return l.Waiting(c.Election("/e").Campaign)
}

// observing follows who leads until end; an error is a state, too.
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
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		watcher := l.Client("watcher")
		states, end := l.observing(watcher)
		require.Equal(t, "", (<-states).ID)
		a := l.elected("a")
		require.Equal(t, "a", (<-states).ID)
		b := l.campaigning(l.Client("b"))
		l.Unlock(a)
		require.Equal(t, "b", (<-states).ID)
		l.Srv.Expire(l.SessionID(watcher))
		l.Unlock((<-b).V)
		for s := range states { // the expiry shows as an error or not at all; the last state must come
			if s.ID == "" {
				break
			}
			require.Contains(t, []string{"error", "b"}, s.ID)
		}
		end()
	})
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
			select {
			case s := <-states:
				require.Equal(t, c.then, s.ID)
			case <-time.After(time.Hour):
				require.Fail(t, "never")
			}
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

// Candidates of other programs may let only themselves read their nodes. Who leads is in the list.
func TestAnObserverFollowsLeadersItMayNotRead(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		watcher := l.Client("watcher")
		id := l.SessionID(watcher)
		l.Srv.Inject(func(r zktest.Request) bool {
			return r.Session == id && r.Op == "getData" && strings.HasPrefix(r.Path, "/e/")
		}, zktest.Fail(zktest.CodeNoAuth))
		states, end := l.observing(watcher)
		require.Empty(t, <-states)
		a := l.elected("a")
		require.Equal(t, a.Node(), (<-states).Path)
		next := l.campaigning(l.Client("b"))
		l.Unlock(a)
		b := (<-next).V
		require.Equal(t, b.Node(), (<-states).Path)
		l.Unlock(b)
		require.Empty(t, <-states)
		end()
	})
}

// elected has a new client lead.
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
