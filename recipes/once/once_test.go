package once_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
	"github.com/locktree/locktree/recipes/zktest"
)

const oneWay = harness.OneWay

// lab is a harness.Lab with a job at /job.
type lab struct{ *harness.Lab }

func inLab(t *testing.T, f func(t *testing.T, l *lab)) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) { f(t, &lab{l}) })
}

// job declares a job at /job. The lab's time is midnight on 1 January 2000, UTC.
func (l *lab) job(p *kind.OnceParams) *kind.OnceParams {
	full := kind.Once.New().(*kind.OnceParams)
	if p.Schedule != "" {
		full.Schedule, full.CatchUp, full.Timezone = p.Schedule, p.CatchUp, p.Timezone
	}
	if p.Success != "" {
		full.Success = p.Success
	}
	if p.Keep > 0 {
		full.Keep = p.Keep
	}
	require.NoError(l.T, kind.Validate(full))
	l.Declare("/job", full, func(next *kind.Payload) {
		if live := l.declaredJob(); live != nil {
			next.Carry(live)
		}
	})
	return full
}

// declaredJob returns what an apply reads of the job, or nil if there is none.
func (l *lab) declaredJob() *kind.Payload {
	n, ok := l.Srv.Get("/job")
	if !ok {
		return nil
	}
	live, err := kind.Decode(n.Data)
	require.NoError(l.T, err)
	live.Read(n.Stat.Mtime)
	return live
}

// remake deletes the job, and creates it again after a while, as an apply that replaces it does. It returns false while the lock is in use.
func (l *lab) remake(gone time.Duration) bool {
	l.T.Helper()
	if len(l.Children("/job")) != 1 {
		return false
	}
	live := l.declaredJob()
	record, ok := l.Srv.Get("/job/once-record")
	require.True(l.T, ok)
	next := &kind.Payload{Params: live.Params, Owner: live.Owner}
	next.CarrySince(live)
	require.NoError(l.T, l.Srv.Delete("/job"))
	time.Sleep(gone)
	require.NoError(l.T, l.Srv.Provision("/job", next))
	require.NoError(l.T, l.Srv.Set("/job/once-record", slots.CarryRecord(record.Data, record.Stat.Ctime)))
	return true
}

// record returns the record of the job.
func (l *lab) record() *slots.Record {
	l.T.Helper()
	n, ok := l.Srv.Get("/job/once-record")
	require.True(l.T, ok)
	r, err := slots.ParseRecord(n.Data)
	require.NoError(l.T, err)
	return r
}

// skewed makes a client whose clock differs.
func (l *lab) skewed(id string, by time.Duration) *recipes.Client {
	l.Seams = seam.Seams{Now: func() time.Time { return time.Now().Add(by) }}
	defer func() { l.Seams = seam.Seams{} }()
	return l.Client(id)
}

func ran(n *int, err error) func(context.Context, *recipes.Lease) error {
	return func(context.Context, *recipes.Lease) error { *n++; return err }
}

// each is like ran, for Run.
func each(n *int) func(context.Context, time.Time, *recipes.Lease) error {
	return func(context.Context, time.Time, *recipes.Lease) error { *n++; return nil }
}

func TestASlotIsStartedOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{})
		a, b := once.New(l.Client("a"), "/job"), once.New(l.Client("b"), "/job")
		n := 0
		require.NoError(t, a.Do(t.Context(), "one", ran(&n, nil)))
		for _, o := range []*once.Once{a, b} {
			err := o.Do(t.Context(), "one", ran(&n, nil))
			var taken *once.SlotError
			require.ErrorAs(t, err, &taken)
			require.ErrorIs(t, err, once.ErrSlotTaken)
			require.Equal(t, "recipes: slot taken: one of /job is succeeded, by a", err.Error())
			require.False(t, recipes.Retryable(err))
		}
		bad := errors.New("no ink")
		require.ErrorIs(t, b.Do(t.Context(), "two", ran(&n, bad)), bad)
		require.ErrorIs(t, a.Do(t.Context(), "two", ran(&n, nil)), once.ErrSlotTaken, "at most one start")
		// The read before the wait may fail: the lock's holder reads the record in any case.
		failed := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == "/job/once-record" }), zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, b.Do(t.Context(), "one", ran(&n, nil)), once.ErrSlotTaken)
		require.Equal(t, 1, failed.Hits())
		require.Equal(t, 2, n)
		r := l.record()
		require.Equal(t, slots.Succeeded, r.Run("one").State)
		two := r.Run("two")
		require.Equal(t, slots.Failed, two.State)
		require.Equal(t, "no ink", two.Result)
		require.Equal(t, "b", two.By)
		require.Greater(t, two.Token, r.Run("one").Token)
		require.Empty(t, l.Children("/job/once-record"))
	})
}

func TestARunThatFailsIsTriedAgainIfItsEndCounts(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Success: kind.SuccessEnd})
		a, b := once.New(l.Client("a"), "/job"), once.New(l.Client("b"), "/job")
		n, tokens := 0, []uint64{}
		fails := func(_ context.Context, l *recipes.Lease) error {
			tokens = append(tokens, l.Token())
			return errors.New("no ink")
		}
		require.Error(t, a.Do(t.Context(), "one", fails))
		require.Error(t, a.Do(t.Context(), "one", fails))
		require.NoError(t, b.Do(t.Context(), "one", ran(&n, nil)))
		require.ErrorIs(t, a.Do(t.Context(), "one", fails), once.ErrSlotTaken)
		one := l.record().Run("one")
		require.Equal(t, 3, one.Tries)
		require.Equal(t, slots.Succeeded, one.State)
		require.Greater(t, tokens[1], tokens[0])
		require.Greater(t, one.Token, tokens[1])
	})
}

// A waiter leaves as soon as the record decides: with success = "start", when the other client has begun.
func TestWaitersLeaveWhenTheRecordDecides(t *testing.T) {
	for _, c := range []struct {
		success string
		decided time.Duration
	}{{kind.SuccessStart, 0}, {kind.SuccessEnd, time.Minute}} {
		inLab(t, func(t *testing.T, l *lab) {
			l.job(&kind.OnceParams{Success: c.success})
			a, b := once.New(l.Client("a"), "/job"), once.New(l.Client("b"), "/job")
			began := time.Now()
			start := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
			both := harness.Async(func() (int, error) {
				return 0, a.Do(t.Context(), "one", func(context.Context, *recipes.Lease) error { time.Sleep(time.Minute); return nil })
			})
			<-start.Hit()
			n := 0
			waiter := harness.Async(func() (int, error) { return 0, b.Do(t.Context(), "one", ran(&n, nil)) })
			l.Settle()
			start.Release()
			w, x := <-waiter, <-both
			require.NoError(t, x.Err)
			require.Zero(t, n)
			require.ErrorIs(t, w.Err, once.ErrSlotTaken)
			require.InDelta(t, c.decided.Seconds(), w.At.Sub(began).Seconds(), 1)
		})
	}
}

func TestSlotsThatAreOldUnnamedOrDamagedAreRefused(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Keep: 2})
		o := once.New(l.Client("a"), "/job")
		n := 0
		for _, slot := range []string{"b", "c", "d"} {
			require.NoError(t, o.Do(t.Context(), slot, ran(&n, nil)))
		}
		for _, slot := range []string{"b", "a", "bb"} {
			require.ErrorIs(t, o.Do(t.Context(), slot, ran(&n, nil)), once.ErrSlotTooOld, slot)
		}
		require.ErrorIs(t, o.Do(t.Context(), "", ran(&n, nil)), once.ErrNoSlot)
		require.ErrorIs(t, o.Run(t.Context(), nil), once.ErrNoSlot)
		require.Equal(t, 3, n)

		held, err := o.Start(t.Context(), "e")
		require.NoError(t, err)
		_, err = once.New(l.Client("b"), "/job").TryStart(t.Context(), "f")
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.NoError(t, held.End(t.Context(), nil))

		c := l.Client("c")
		require.ErrorIs(t, c.Mutex("/job").Do(t.Context(), nil), recipes.ErrKindMismatch)
		require.NoError(t, l.Srv.Set("/job/once-record", []byte("x")))
		require.ErrorContains(t, o.Do(t.Context(), "g", ran(&n, nil)), "the record of slots is damaged")
		require.NoError(t, l.Srv.Delete("/job/once-record"))
		require.ErrorIs(t, o.Do(t.Context(), "g", ran(&n, nil)), recipes.ErrNotProvisioned)
		require.Empty(t, l.Children("/job"))
	})
}

// No client starts more than 30 s early by the ensemble's clock, or later than catch_up.
func TestClocksSayWhenToTry(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *", CatchUp: "5m"})
		begin := time.Now()
		time.Sleep(51 * time.Minute)
		fast := once.New(l.skewed("fast", 10*time.Minute), "/job")
		var at time.Time
		require.NoError(t, fast.Do(t.Context(), "", func(context.Context, *recipes.Lease) error { at = time.Now(); return nil }))
		require.GreaterOrEqual(t, at.Sub(begin), time.Hour-30*time.Second)
		require.Less(t, at.Sub(begin), time.Hour-28*time.Second) // late by the stagger (at most a second) and by a few round trips
		require.Equal(t, "2000-01-01T01:00:00Z", l.record().Slots[0].Slot)

		slow := once.New(l.skewed("slow", -10*time.Minute), "/job")
		time.Sleep(time.Until(begin.Add(2*time.Hour + 4*time.Minute)))
		n := 0
		require.ErrorIs(t, slow.Do(t.Context(), "", ran(&n, nil)), once.ErrSlotTaken, "by its clock it is before two")
		time.Sleep(6 * time.Minute)
		require.ErrorIs(t, slow.Do(t.Context(), "", ran(&n, nil)), once.ErrSlotTooOld)
		require.NoError(t, slow.Do(t.Context(), "2000-01-01T02:00:00Z", ran(&n, nil)), "whoever names a slot wants it")
		require.ErrorIs(t, slow.Do(t.Context(), "2000-01-01T00:00:00Z", ran(&n, nil)), once.ErrSlotTooOld, "nothing was declared then")
		require.Equal(t, 1, n)
	})
}

// A waiter's contender says when it queued. That may be hours ago, so it does not show that the slot is in time.
func TestASlotIsNotStartedLateByTheLengthOfTheWait(t *testing.T) {
	for _, success := range []string{kind.SuccessStart, kind.SuccessEnd} {
		inLab(t, func(t *testing.T, l *lab) {
			l.job(&kind.OnceParams{Schedule: "* * * * *", CatchUp: "5m", Success: success})
			time.Sleep(90 * time.Second)
			s, err := once.New(l.Client("a"), "/job").Start(t.Context(), "")
			require.NoError(t, err)
			time.Sleep(time.Minute)
			waiting := harness.Async(func() (*once.Start, error) { return once.New(l.Client("b"), "/job").Start(t.Context(), "") })
			time.Sleep(2 * time.Hour)
			require.NoError(t, s.End(t.Context(), nil))
			require.ErrorIs(t, (<-waiting).Err, once.ErrSlotTooOld)
			require.Len(t, l.record().Slots, 1, "the start that was too late is undone")
		})
	}
}

// A machine's clock was a day ahead when the machine began, or was put back by a day. The machine then waited a day for the next slot by
// that clock. A machine that is ahead all the time starts each slot, too.
func TestAClockThatIsSetCostsNoSlot(t *testing.T) {
	for _, schedule := range []string{"0 * * * *", "30 * * * *"} {
		for _, ahead := range []time.Duration{24 * time.Hour, -24 * time.Hour, 25 * time.Hour} {
			inLab(t, func(t *testing.T, l *lab) {
				l.job(&kind.OnceParams{Schedule: schedule, CatchUp: "30m"})
				born, n := time.Now(), 0
				l.Seams = seam.Seams{Now: func() time.Time {
					if at := time.Since(born); at < 2*time.Minute || at > 5*time.Hour && at < 5*time.Hour+2*time.Minute || ahead > 24*time.Hour {
						return time.Now().Add(ahead)
					}
					return time.Now()
				}}
				ctx := l.Within(9*time.Hour + 45*time.Minute)
				a, b := l.Client("a"), l.Client("b")
				named := harness.Async(func() (*once.Start, error) { return once.New(b, "/job").Start(ctx, "") })
				err := once.New(a, "/job").Run(ctx, each(&n))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.GreaterOrEqual(t, n, 9, "%s, ahead by %v", schedule, ahead)
				require.Error(t, (<-named).Err)
				require.Less(t, l.Changes("/job"), int32(2000), "each minute at most")
			})
		}
	}
}

func TestANewRecordKnowsNothingOfTheSlotsBeforeIt(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *"})
		time.Sleep(time.Hour + time.Minute)
		require.NoError(t, l.Srv.Delete("/job/once-record"))
		require.NoError(t, l.Srv.Create("/job/once-record", nil))
		n := 0
		require.ErrorIs(t, once.New(l.Client("b"), "/job").Do(t.Context(), "2000-01-01T01:00:00Z", ran(&n, nil)), once.ErrSlotTooOld)
	})
}

func TestASlotThatIsNoneByTheTimeOfTheGrantIsNotStarted(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "* * * * *"})
		time.Sleep(90 * time.Second)
		held, err := once.New(l.Client("a"), "/job").Start(t.Context(), "")
		require.NoError(t, err)
		n := 0
		waiting := harness.Async(func() (int, error) {
			return 0, once.New(l.Client("b"), "/job").Do(t.Context(), "2000-01-01T00:02:00Z", ran(&n, nil))
		})
		time.Sleep(time.Minute)
		l.job(&kind.OnceParams{Schedule: "0 * * * *"})
		require.NoError(t, held.End(t.Context(), nil))
		require.ErrorIs(t, (<-waiting).Err, once.ErrNoSlot)
		require.Zero(t, n)
	})
}

// Run and Do ended with ErrNotProvisioned when a job was replaced between two of their requests. Before each request in turn, the job goes
// for a moment in which only that request is executed.
func TestAJobThatIsReplacedBetweenTwoRequestsGoesOn(t *testing.T) {
	for _, c := range []struct {
		name string
		work func(ctx context.Context, o *once.Once, n *int) error
	}{
		{"Run", func(ctx context.Context, o *once.Once, n *int) error {
			return o.Run(ctx, each(n))
		}},
		{"Do", func(ctx context.Context, o *once.Once, n *int) error {
			time.Sleep(time.Minute)
			return o.Do(ctx, "", ran(n, nil))
		}},
	} {
		remade := 0
		for after, struck := 0, true; struck; after++ {
			inLab(t, func(t *testing.T, l *lab) {
				l.job(&kind.OnceParams{Schedule: "0 * * * *"})
				o, n, seen := once.New(l.Client("a"), "/job"), 0, 0
				require.Error(t, o.Do(t.Context(), "2000-01-01T00:00:00Z", nil), "it has read the declaration")
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - 50*time.Second)))
				ctx := l.Within(2 * time.Minute)
				request := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
					if r.Op == "ping" || slices.Contains(r.Paths, "/job") && r.Op != "create" { // the job is not declared then
						return false
					}
					seen++
					return seen > after
				}), zktest.Delay(oneWay/2))
				done := harness.Async(func() (int, error) { return 0, c.work(ctx, o, &n) })
				select {
				case <-request.Hit():
					if l.remake(2*oneWay - 1) { // the request comes before the job is back, the next one after
						remade++
					}
				case <-ctx.Done():
					struck = false
				}
				if err := (<-done).Err; c.name == "Run" {
					require.ErrorIs(t, err, context.DeadlineExceeded, "request %d", after)
				} else {
					require.NoError(t, err, "request %d", after)
				}
				require.Equal(t, 1, n, "request %d", after)
				require.Equal(t, slots.Succeeded, l.record().Run("2000-01-01T01:00:00Z").State)
			})
		}
		require.Greater(t, remade, 1, c.name)
	}
}

// A job at another path is another job: its programs at the old path get ErrNotProvisioned.
func TestAJobThatHasAnotherPathIsNotProvisioned(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *"})
		o, n := once.New(l.Client("a"), "/job"), 0
		run := harness.Async(func() (int, error) { return 0, o.Run(t.Context(), nil) })
		time.Sleep(time.Minute)
		require.NoError(t, l.Srv.Provision("/jobs/new", l.declaredJob()))
		require.NoError(t, l.Srv.Delete("/job"))
		require.ErrorIs(t, (<-run).Err, recipes.ErrNotProvisioned)
		require.ErrorIs(t, o.Do(t.Context(), "2000-01-01T00:00:00Z", ran(&n, nil)), recipes.ErrNotProvisioned)
		require.Zero(t, n)
	})
}

// The lock is broken before the start is written, and the lease does not know yet. The error then said that the record does not exist.
func TestALockThatIsBrokenBeforeTheStartIsLost(t *testing.T) {
	for _, op := range []string{"exists", "getData"} {
		inLab(t, func(t *testing.T, l *lab) {
			l.job(&kind.OnceParams{Schedule: "0 * * * *"})
			ctx := l.Within(time.Hour + 2*time.Minute)
			n, created := 0, false
			held := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
				created = created || r.Op == "create"
				return created && r.Op == op
			}), zktest.Hold)
			run := harness.Async(func() (int, error) { return 0, once.New(l.Client("a"), "/job").Run(ctx, each(&n)) })
			<-held.Hit()
			for _, contender := range l.Queue("/job") {
				require.NoError(t, l.Srv.Delete(contender))
			}
			held.Release()
			require.ErrorIs(t, (<-run).Err, context.DeadlineExceeded, op)
			require.Equal(t, 1, n)
		})
	}
}

// A session may end between the end of a run and its record, before the lease is told. No other client would run the slot again.
func TestARunWhoseResultWasNotRecordedIsTriedAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *", Success: kind.SuccessEnd})
		c := l.Client("a")
		for _, path := range l.Mutexes(300) { // their leases are told first
			l.Lock(c.Mutex(path).Lock)
		}
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		run := harness.Async(func() (int, error) {
			err := once.New(c, "/job").Run(ctx, func(_ context.Context, _ time.Time, lease *recipes.Lease) error {
				if n++; n == 1 {
					l.Srv.Expire(l.SessionID(c))
				}
				return nil
			})
			return n, err
		})
		time.Sleep(time.Hour + time.Minute)
		require.Equal(t, slots.Succeeded, l.record().Run("2000-01-01T01:00:00Z").State)
		stop()
		require.Equal(t, 2, (<-run).V)

		s, err := once.New(c, "/job").Start(t.Context(), "")
		require.ErrorIs(t, err, once.ErrSlotTaken)
		require.Nil(t, s)
		other := l.Client("b")
		time.Sleep(time.Hour)
		s, err = once.New(other, "/job").Start(t.Context(), "")
		require.NoError(t, err)
		l.Srv.Expire(l.SessionID(other))
		require.ErrorIs(t, s.End(t.Context(), nil), recipes.ErrLost)
		require.ErrorIs(t, context.Cause(s.Context()), recipes.ErrLost)
	})
}

// Clients whose clocks agree come to each slot together. One or two of them queue, and the others read what these write.
func TestFiftyClientsDoNotAllQueueForASlot(t *testing.T) {
	const clients, slots = 50, 3
	for _, c := range []struct {
		success     string
		takes       time.Duration
		queue, each int // by slot
	}{{kind.SuccessStart, 0, 12, 4}, {kind.SuccessEnd, 15 * time.Second, 12, 8}} {
		inLab(t, func(t *testing.T, l *lab) {
			l.job(&kind.OnceParams{Schedule: "* * * * *", Success: c.success})
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			runs := 0
			for i := range clients {
				o := once.New(l.Client(fmt.Sprint(i)), "/job")
				all.Go(func() {
					_ = o.Run(ctx, func(context.Context, time.Time, *recipes.Lease) error { runs++; time.Sleep(c.takes); return nil })
				})
			}
			time.Sleep(30 * time.Second)
			l.Srv.ResetCounts()
			time.Sleep(slots * time.Minute)
			counts := l.Srv.Counts()
			stop()
			all.Wait()
			require.Equal(t, slots, runs)
			require.LessOrEqual(t, counts.ByOp["create"], slots*c.queue, "%v", counts)
			require.LessOrEqual(t, counts.Total, slots*clients*c.each, "%v", counts)
		})
	}
}

// The two contenders that a client finds in the queue may be there for another purpose than its slot, such as another program's lock.
func TestWhoStandsByDoesNotRelyOnTheQueueForLong(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *"})
		holder, waiter := l.Foreign("/job", "lock-0000000000", ""), l.Foreign("/job", "lock-0000000001", "")
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		run := harness.Async(func() (at time.Time, err error) {
			err = once.New(l.Client("a"), "/job").Run(ctx, func(context.Context, time.Time, *recipes.Lease) error { at = time.Now(); return nil })
			return at, err
		})
		time.Sleep(time.Until(began.Add(time.Hour + 50*time.Second)))
		require.Len(t, l.Children("/job"), 3, "it stands by")
		time.Sleep(time.Minute)
		require.Len(t, l.Children("/job"), 4, "it queues")
		require.NoError(t, l.Srv.Delete(holder))
		require.NoError(t, l.Srv.Delete(waiter))
		l.Settle()
		stop()
		require.WithinDuration(t, began.Add(time.Hour+110*time.Second), (<-run).V, time.Second)
	})
}

// The others decide between a client's looks at the record and at the queue. Nothing changes after that, so the client does not wait for
// a change.
func TestWhoStandsByLooksAgainIfTheRecordHasChangedMeanwhile(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *"})
		l.Foreign("/job", "lock-0000000000", "")
		l.Foreign("/job", "lock-0000000001", "")
		began, looks := time.Now(), 0
		queue := l.Listing("/job", zktest.HoldReader)
		ctx, stop := context.WithCancel(t.Context())
		run := harness.Async(func() (int, error) {
			n := 0
			err := once.New(l.Client("a"), "/job").Run(ctx, each(&n))
			return n, err
		})
		<-queue.Hit()
		require.GreaterOrEqual(t, time.Since(began), time.Hour)
		decided := l.record().Put(slots.Run{Slot: slots.At(began.Add(time.Hour)), State: slots.Succeeded, Token: 1}, 10)
		require.NoError(t, l.Srv.Set("/job/once-record", decided.Encode()))
		l.Srv.Inject(func(r zktest.Request) bool {
			if r.Op == "getData" && r.Path == "/job/once-record" {
				looks++
			}
			return false
		}, zktest.DropReply)
		queue.Release()
		time.Sleep(3 * time.Second)
		l.Settle()
		require.Equal(t, 2, looks, "one sees that it has changed, the next one how")
		stop()
		require.Zero(t, (<-run).V)
	})
}

func TestAZoneThatThisMachineLacksIsAnErrorAtFirstUse(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 3 * * *", Timezone: "Nowhere/AtAll"})
		o := once.New(l.Client("a"), "/job")
		n := 0
		for _, err := range []error{o.Do(t.Context(), "", ran(&n, nil)), o.Do(t.Context(), "2000-01-01T03:00:00Z", ran(&n, nil)), o.Run(t.Context(), nil),
			o.Skip(t.Context(), "2000-01-01T03:00:00Z")} {
			require.ErrorIs(t, err, slots.ErrUnknownZone)
			require.ErrorContains(t, err, "once /job: ")
		}
		require.Zero(t, n)
	})
}

// A call then said only "node does not exist".
func TestARunWithoutARecordIsNotProvisioned(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		params := l.job(&kind.OnceParams{Schedule: "0 * * * *"})
		require.NoError(t, l.Srv.Delete("/job/once-record"))
		require.ErrorIs(t, once.New(l.Client("a"), "/job").Run(t.Context(), nil), recipes.ErrNotProvisioned)
		o := once.New(l.Client("b"), "/job", recipes.WithParams(params), recipes.WithCreate(zk.WorldACL(zk.PermAll)...))
		ctx := l.Within(90 * time.Minute)
		n := 0
		require.ErrorIs(t, o.Run(ctx, each(&n)), context.DeadlineExceeded)
		require.Equal(t, 1, n)
		require.ErrorIs(t, o.Do(t.Context(), "2000-01-01T01:00:00Z", ran(&n, nil)), once.ErrSlotTaken)
	})
}

func TestPeopleSkip(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *"})
		ops, o := once.New(l.Client("ops"), "/job"), once.New(l.Client("a"), "/job")
		n := 0
		time.Sleep(time.Hour + time.Minute)
		require.NoError(t, ops.Skip(t.Context(), "2000-01-01T01:00:00Z"))
		require.NoError(t, ops.Skip(t.Context(), "2000-01-01T01:00:00Z"))
		require.ErrorContains(t, o.Do(t.Context(), "", ran(&n, nil)), "is skipped, by ops")

		require.NoError(t, ops.Skip(t.Context(), "2000-01-01T03:00:00Z"), "one that is not due yet")
		time.Sleep(time.Hour)
		require.NoError(t, o.Do(t.Context(), "", ran(&n, nil)))
		require.ErrorIs(t, ops.Skip(t.Context(), "2000-01-01T02:00:00Z"), once.ErrSlotTaken)
		time.Sleep(time.Hour)
		require.ErrorContains(t, o.Do(t.Context(), "", ran(&n, nil)), "is skipped, by ops")
		time.Sleep(time.Hour)
		require.NoError(t, o.Do(t.Context(), "", ran(&n, nil)))
		require.Equal(t, 2, n)

		s, err := o.Start(t.Context(), "2000-01-01T03:00:00Z")
		require.ErrorIs(t, err, once.ErrSlotTaken)
		require.Nil(t, s)
		require.ErrorIs(t, ops.Skip(t.Context(), "noon"), once.ErrNoSlot)
	})
}

// The record changes between a client's read and its write that starts a slot. Neither change is lost.
func TestAStartDoesNotOverwriteWhatOthersRecord(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{})
		o := once.New(l.Client("a"), "/job")
		require.NoError(t, o.Do(t.Context(), "a", func(context.Context, *recipes.Lease) error { return nil }))
		held := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && slices.Contains(r.Paths, "/job/once-record") }), zktest.Hold)
		n := 0
		done := harness.Async(func() (int, error) { return 0, o.Do(t.Context(), "m", ran(&n, nil)) })
		<-held.Hit()
		other := l.record().Put(slots.Run{Slot: "h", State: slots.Skipped}, 30)
		require.NoError(t, l.Srv.Set("/job/once-record", other.Encode()))
		held.Release()
		require.NoError(t, (<-done).Err)
		r := l.record()
		require.NotNil(t, r.Run("h"), "the skip was overwritten")
		require.Equal(t, slots.Skipped, r.Run("h").State)
		require.Equal(t, slots.Succeeded, r.Run("m").State)
		require.Equal(t, 1, n)
	})
}

// With keep = 1, only the record of a slot next year was left. Nothing was started until then, and no error said so.
func TestASkipThatWouldForgetSlotsThatAreToBeRunIsRefused(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.job(&kind.OnceParams{Schedule: "0 * * * *", Keep: 1})
		ops, o := once.New(l.Client("ops"), "/job"), once.New(l.Client("a"), "/job")
		n := 0
		time.Sleep(time.Hour + time.Minute)
		require.ErrorContains(t, ops.Skip(t.Context(), "2000-01-01T02:00:00Z"), "would forget 2000-01-01T01:00:00Z, which is still to be run")
		require.NoError(t, o.Do(t.Context(), "", ran(&n, nil)))
		require.ErrorContains(t, ops.Skip(t.Context(), "2000-01-03T00:00:00Z"),
			"/job: with keep = 1, skipping 2000-01-03T00:00:00Z would forget 2000-01-01T02:00:00Z, which is still to be run: run or skip that one first")
		time.Sleep(time.Hour)
		require.NoError(t, o.Do(t.Context(), "", ran(&n, nil)))
		require.NoError(t, ops.Skip(t.Context(), "2000-01-01T03:00:00Z"), "the next one")
		time.Sleep(2 * time.Hour)
		require.NoError(t, o.Do(t.Context(), "", ran(&n, nil)))
		require.Equal(t, 3, n)
	})
}
