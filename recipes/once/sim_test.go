package once_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// Clients run a job for each minute. Their clocks are wrong by up to ten minutes, and are changed meanwhile, for short times by a day.
// Their connections are cut after any byte. They are stopped, cut off and killed, and their sessions expire. Some runs last longer than
// catch_up. Meanwhile the job is declared again, with another schedule and back, and replaced. No slot is started twice, has two successes,
// is started late, or is from before its schedule. One client always lives, with a clock that is less than catch_up behind. So no slot is
// missed, except while a run that lasts has the lock.

func TestEverySlotIsStartedOnceWhateverHappens(t *testing.T) {
	for seed := range uint64(2) {
		simulateOnce(t, seed, effort.Of(45*time.Minute, 25*time.Minute), effort.Of(6, 4), false)
		for clients := range 3 {
			simulateOnce(t, seed, effort.Of(4*time.Hour, time.Hour), clients+1, true)
		}
	}
}

// Clients cost more than slots. Most of the ten thousand slots have two or three clients: one runs the job, and the others wait, or are
// gone. With SIM_SEEDS=170, ten thousand slots have fifty clients, which takes six minutes of CPU.
func TestTenThousandSlotsAreStartedOnceWhateverHappens(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // little is alive at a time
	fifty := 4
	if n, err := strconv.Atoi(os.Getenv("SIM_SEEDS")); err == nil && n > 0 {
		fifty = n
	}
	seed := uint64(100)
	for _, share := range []struct {
		bubbles, clients int
		lasts            time.Duration
		long             bool
	}{{fifty, 50, time.Hour, false}, {2, 9, 2 * time.Hour, true}, {2, 3, 20*time.Hour + 5*time.Minute, false}, {6, 2, 20*time.Hour + 5*time.Minute, false},
		{4, 1, 20 * time.Hour, true}, {6, 3, 20 * time.Hour, true}} {
		for range share.bubbles {
			simulateOnce(t, seed, share.lasts, share.clients, share.long)
			seed++
		}
	}
}

const (
	onceSkew    = 10 * time.Minute
	onceCatchUp = 20 * time.Minute
	onceLong    = 25 * time.Minute // of some runs
)

// onceWorld is a job and its clients.
type onceWorld struct {
	*lab
	rand    *rand.Rand
	success string
	begun   time.Time

	mu             sync.Mutex
	starts         map[string][]uint64 // the tokens of each slot, in order
	done           map[string]uint64   // the token of each recorded success
	faults         int
	alone, lasting bool // there is one client; some runs last
	plans          []oncePlan
	long           []time.Time // when runs that last began
}

// oncePlan is a schedule, and when it was declared.
type oncePlan struct {
	at    time.Time
	every int // how many minutes
}

func (p oncePlan) has(slot time.Time) bool { return slot.Minute()%p.every == 0 && slot.After(p.at) }

// may reports whether a slot may be started: its schedule is in force, or was until a moment ago.
func (w *onceWorld) may(slot, now time.Time) bool {
	for i, p := range w.plans {
		if p.has(slot) && (i == len(w.plans)-1 || now.Sub(w.plans[i+1].at) < 40*time.Second) {
			return true
		}
	}
	return false
}

// must reports whether a slot must have been started by the time it is too late: its schedule was in force until then, and no run that
// lasts had the lock at the end.
func (w *onceWorld) must(slot time.Time) bool {
	last := slot.Add(onceCatchUp)
	i := len(w.plans) - 1
	for i > 0 && w.plans[i].at.After(last.Add(time.Minute)) {
		i--
	}
	if !w.plans[i].has(slot) {
		return false
	}
	for _, begun := range w.long {
		if begun.Before(last) && begun.Add(onceLong).After(last.Add(-6*time.Minute)) {
			return false
		}
	}
	return true
}

// provision declares the job, often with its present schedule, and replaces it, as applies do.
func (w *onceWorld) provision(ctx context.Context, r *rand.Rand) {
	s, err := w.Client("apply").Session(ctx)
	require.NoError(w.T, err)
	for every := 1; harness.Pause(ctx, time.Duration(r.Int64N(int64(4*time.Minute)))) == nil; {
		if r.IntN(2) == 0 {
			w.replace(ctx, s)
			continue
		}
		if r.IntN(8) == 0 {
			every = 3 - every
		}
		w.declareEvery(every)
	}
}

func (w *onceWorld) declareEvery(minutes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	schedule := map[int]string{1: "* * * * *", 2: slots.ScheduleText([5]uint64{0x555555555555555, 1<<24 - 1, 1<<63 | 1<<32 - 2, 1<<13 - 2, 1<<63 | 1<<7 - 1})}[minutes]
	w.job(&kind.OnceParams{Schedule: schedule, CatchUp: onceCatchUp.String(), Success: w.success, Keep: 25})
	if n := len(w.plans); n == 0 || w.plans[n-1].every != minutes {
		w.plans = append(w.plans, oncePlan{time.Now(), minutes})
	}
}

// The server refuses replace while the lock is in use, and if the record has changed since replace read it.
func (w *onceWorld) replace(ctx context.Context, s *direct.Session) {
	live, record := w.declaredJob(), kind.JoinPath("/job", kind.Once.Record)
	next := &kind.Payload{Params: live.Params, Owner: live.Owner}
	next.CarrySince(live)
	data, err := next.Encode()
	require.NoError(w.T, err)
	was, stat, err := s.Get(ctx, record)
	if err != nil {
		return // it ends
	}
	_, _ = s.Multi(ctx, &zk.DeleteRequest{Path: record, Version: stat.Version}, &zk.DeleteRequest{Path: "/job", Version: -1},
		&zk.CreateRequest{Path: "/job", Data: data, Acl: zk.WorldACL(zk.PermAll)}, &zk.CreateRequest{Path: record, Data: slots.CarryRecord(was, stat.Ctime), Acl: zk.WorldACL(zk.PermAll)})
}

// simulateOnce runs one world. In a long one, some runs last longer than catch_up.
func simulateOnce(t *testing.T, seed uint64, lasts time.Duration, clients int, long bool) {
	harness.Bubble(t, func(t *testing.T) {
		w := &onceWorld{lab: &lab{harness.NewLab(t)}, rand: rand.New(rand.NewPCG(seed, 7)),
			success: []string{kind.SuccessStart, kind.SuccessEnd}[seed%2], starts: map[string][]uint64{}, done: map[string]uint64{}, alone: clients == 1, lasting: long}
		w.declareEvery(1)
		w.begun = time.Now()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { w.provision(ctx, rand.New(rand.NewPCG(seed, 99))) })
		for i := range clients {
			all.Go(func() { w.live(ctx, i, rand.New(rand.NewPCG(seed, uint64(i+100)))) })
		}
		for end := time.Now().Add(lasts); time.Now().Before(end); {
			time.Sleep(time.Minute)
			w.inspect(seed)
		}
		stop()
		all.Wait()
		w.inspect(seed)
		require.Greater(t, w.faults, clients)
		t.Logf("seed %d, success = %q: %d slots, %d faults, %d schedules, %d runs that lasted", seed, w.success, len(w.starts), w.faults, len(w.plans), len(w.long))
	})
}

// live is the life of a machine. Its clients come and go, but the first machine's client suffers only faults that end.
func (w *onceWorld) live(ctx context.Context, number int, r *rand.Rand) {
	for ctx.Err() == nil {
		cable := &harness.Cutter{Next: w.Srv.DialContext}
		skew := &atomic.Int64{}
		skew.Store(r.Int64N(int64(2*onceSkew)) - int64(onceSkew))
		c, err := recipes.Dial(seam.With(ctx, seam.Seams{Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }}),
			recipes.Config{Servers: []string{"zk"}, Dialer: cable.Dial, SessionTimeout: 40 * time.Second, ID: fmt.Sprint(number)})
		if err != nil {
			continue
		}
		works := rand.New(rand.NewPCG(r.Uint64(), 0))
		lives, kill := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			err := once.New(c, "/job").Run(lives, w.work(works))
			if lives.Err() == nil {
				w.T.Errorf("Run of client %d has ended: %v", number, err)
			}
		})
		for again := true; again && lives.Err() == nil; {
			seldom := 1
			if number == 1 && w.lasting { // it may stand in the queue as long as a run lasts
				seldom = 10
			}
			again = harness.Pause(lives, time.Duration(r.Int64N(int64(seldom)*int64(4*time.Minute)))) != nil || w.suffer(lives, c, cable, skew, r, number > 0)
		}
		cable.SetRefuse(true) // from here on, no server hears from it
		cable.HangUp()
		kill()
		running.Wait()
		_ = c.Close()
		_ = harness.Pause(ctx, time.Duration(r.Int64N(int64(3*time.Minute))))
	}
}

// suffer is one fault. It returns false for a client that must die.
func (w *onceWorld) suffer(ctx context.Context, c *recipes.Client, cable *harness.Cutter, skew *atomic.Int64, r *rand.Rand, mortal bool) bool {
	w.mu.Lock()
	w.faults++
	w.mu.Unlock()
	asking, done := context.WithTimeout(ctx, time.Second)
	defer done()
	s, err := c.Session(asking)
	if err != nil {
		return true
	}
	lasts := time.Duration(r.Int64N(int64(70 * time.Second)))
	switch r.IntN(8) {
	case 0:
		return !mortal
	case 6: // its clock is set
		skew.Store(r.Int64N(int64(2*onceSkew)) - int64(onceSkew))
	case 7: // for a while it is wrong by a day
		day := []time.Duration{-24 * time.Hour, 24 * time.Hour}[r.IntN(2)]
		skew.Add(int64(day))
		_ = harness.Pause(ctx, 2*lasts)
		skew.Add(-int64(day))
	case 1: // stopped, or cut off
		w.Srv.Partition(s.ID(), []zktest.Direction{zktest.Both, zktest.ToServer, zktest.ToClient}[r.IntN(3)])
		_ = harness.Pause(ctx, lasts)
		w.Srv.Heal(s.ID())
	case 2:
		w.Srv.Expire(s.ID())
	case 3:
		cable.SetRefuse(true)
		cable.HangUp()
		_ = harness.Pause(ctx, lasts)
		cable.SetRefuse(false)
	default:
		cable.Arm(harness.Cut{Dir: harness.Direction(r.IntN(2)), After: r.IntN(2000)}, harness.Cut{Dir: harness.Direction(r.IntN(2)), After: r.IntN(300)})
	}
	return true
}

// work is the job's function. It may outlast its lease. Only the first run of a slot may fail: after its own function fails, Run leaves the
// slot to others. A slot that failed on every machine would be missed.
func (w *onceWorld) work(r *rand.Rand) func(context.Context, time.Time, *recipes.Lease) error {
	return func(ctx context.Context, at time.Time, l *recipes.Lease) error {
		slot, token := slots.At(at), l.Token()
		w.mu.Lock()
		if now := time.Now(); at.Sub(now) > 31*time.Second || now.Sub(at) > onceCatchUp+40*time.Second {
			w.T.Errorf("%s was started at %s", slot, now)
		} else if !w.may(at, now) {
			w.T.Errorf("%s was started at %s, by %v", slot, now, w.plans)
		}
		before := w.starts[slot]
		if len(before) > 0 && (w.success == kind.SuccessStart || before[len(before)-1] >= token) {
			w.T.Errorf("%s was started with token %d after %v", slot, token, before)
		}
		w.starts[slot] = append(before, token)
		if run := w.record().Run(slot); l.Context().Err() == nil && (run == nil || run.Token != token || run.State != slots.Running) {
			w.T.Errorf("%s runs with token %d, and recorded is %v", slot, token, run)
		}
		lasts, fails := time.Duration(r.Int64N(int64(15*time.Second))), r.IntN(10) == 0 && len(before) == 0 && !w.alone
		if w.lasting && r.IntN(20) == 0 {
			lasts = onceLong // its client runs nothing more meanwhile, even without the lock
			w.long = append(w.long, time.Now())
		}
		w.mu.Unlock()
		time.Sleep(lasts)
		if fails {
			return errors.New("no ink")
		}
		return nil
	}
}

// inspect checks the record.
func (w *onceWorld) inspect(seed uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.record()
	for _, run := range r.Slots {
		if was, ok := w.done[run.Slot]; ok && (run.State != slots.Succeeded || run.Token != was) {
			w.T.Errorf("seed %d: %s had succeeded with token %d, and now %v is recorded", seed, run.Slot, was, run)
		}
		if run.State == slots.Succeeded {
			w.done[run.Slot] = run.Token
		}
	}
	// Since the slot's instant there was time for the slowest clock, and for everything that can happen on the way.
	for at := time.Now().Add(-onceCatchUp - 2*time.Minute).Truncate(time.Minute); at.After(w.begun); at = at.Add(-time.Minute) {
		slot := slots.At(at)
		if r.Forgotten != "" && slot <= r.Forgotten {
			break
		}
		if !w.must(at) {
			continue
		}
		run := r.Run(slot)
		if run == nil || w.success == kind.SuccessEnd && run.State != slots.Succeeded {
			w.T.Errorf("seed %d: %s was missed: %v", seed, slot, run)
		}
	}
}

// A client starts a slot and records its end. A cut after any byte that it sends or receives leaves one start and one success.
func TestACutAtAnyByteOfAStartLeavesOneStart(t *testing.T) {
	cutStarts(t, 29)
}

func TestACutAtEveryByteOfAStartLeavesOneStart(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	cutStarts(t, 1)
}

func cutStarts(t *testing.T, stride int) {
	for _, dir := range []harness.Direction{harness.ToServer, harness.ToClient} {
		for after, struck := 0, true; struck; after += stride {
			inLab(t, func(t *testing.T, l *lab) {
				l.job(&kind.OnceParams{Success: kind.SuccessEnd})
				cable := &harness.Cutter{Next: l.Srv.DialContext}
				c := l.Client("a", func(cfg *recipes.Config) { cfg.Dialer = cable.Dial })
				rival := once.New(l.Client("b"), "/job")
				n := 0
				require.NoError(t, once.New(c, "/job").Do(t.Context(), "0", ran(&n, nil)))
				cable.Arm(harness.Cut{Dir: dir, After: after})
				var token uint64
				err := once.New(c, "/job").Do(t.Context(), "1", func(_ context.Context, x *recipes.Lease) error { n++; token = x.Token(); return nil })
				struck = cable.Disarm() > 0
				require.NoError(t, err, "%s after %d bytes", dir, after)
				require.Equal(t, 2, n)
				run := l.record().Run("1")
				require.Equal(t, slots.Succeeded, run.State)
				require.Equal(t, token, run.Token)
				require.Equal(t, 1, run.Tries)
				require.ErrorIs(t, rival.Do(t.Context(), "1", ran(&n, nil)), once.ErrSlotTaken)
				require.NoError(t, rival.Do(t.Context(), "2", ran(&n, nil)))
			})
		}
	}
}
