package recipes_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// reign is one time somebody led: until is when its context ended.
type reign struct {
	who         string
	token       uint64
	from, until time.Time
}

// reigns keeps the books of who led when.
type reigns struct {
	mu  sync.Mutex
	all []reign
}

// lead stands for election until ctx ends, and notes every reign.
func (r *reigns) lead(ctx context.Context, c *recipes.Client, who string) error {
	return c.Election("/e").Lead(ctx, func(ctx context.Context, l *recipes.Lease) error {
		one := reign{who: who, token: l.Token(), from: time.Now()}
		<-ctx.Done()
		one.until = time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, one)
		return nil
	})
}

// ordered checks that tokens grow from reign to reign.
func (r *reigns) ordered(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.all, func(a, b reign) int { return a.from.Compare(b.from) })
	for i, b := range r.all[1:] {
		require.Greater(t, b.token, r.all[i].token)
	}
}

// atRest requires that for a minute nobody left or joined the queue, or looked at it more often than a waiter may make
// sure, once a session timeout, that it has missed nothing.
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
		var books reigns
		done := make(chan error, 2)
		for who, c := range map[string]*recipes.Client{"a": a, "b": b} {
			go func() { done <- books.lead(ctx, c, who) }()
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
		require.GreaterOrEqual(t, len(books.all), 6)
		books.ordered(t) // who is told first that its session was ended early may lead before the other has been told
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

func TestLeaderNamesTheSuccessorWhenTheLeaderResignsDuringTheCall(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		a, b, c := l.Client("a"), l.Client("b"), l.Client("c")
		x := l.Lock(campaign(a))
		_, _, err := c.Election("/e").Leader(t.Context())
		require.NoError(t, err)
		read := l.Srv.Inject(zktest.Once(l.By(c, "getData")), zktest.Hold)
		asked := async(func() (recipes.Contender, error) {
			leader, there, err := c.Election("/e").Leader(t.Context())
			assert.True(t, there, "a candidate stood all the time")
			return leader, err
		})
		<-read.Hit()
		next := l.campaigning(b) // stands before the other one resigns
		l.Unlock(x)
		y := l.Got(next)
		read.Release()
		r := <-asked
		require.NoError(t, r.Err)
		require.Equal(t, y.Node(), r.V.Path)
		l.Unlock(y)
	})
}
