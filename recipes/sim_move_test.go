package recipes_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestSimulationOfMoves moves locks of all kinds between two paths while clients use them by handles on either path, and all that
// befalls clients and servers elsewhere befalls them here. To the invariants and to porcupine both paths are one lock. An apply
// moves a lock when nobody is in its queue, or has it drained first; it may stop for a while behind the write that drains, as one
// does that has crashed, until the next one goes on with the move or takes it back.
func TestSimulationOfMoves(t *testing.T) {
	effort.Proof(t)
	total := playSeeds(t, effort.Of(300, 40), newMoving)
	if *simSeed < 0 {
		require.GreaterOrEqual(t, total.grants, total.seeds*5, "the schedules leave too little to happen")
		require.Greater(t, total.moved, total.seeds, "hardly a lock was moved")
		require.Greater(t, total.movedInUse, total.seeds/4, "hardly a lock was moved while somebody waited for it")
	}
}

// newMoving is the schedule of a seed, or of one world of all recipes, with moves for what changes declarations elsewhere.
func newMoving(seed uint64) *schedule {
	s := newSchedule(seed)
	if seed%4 == 3 {
		s = newLate(seed)
		s.quiet = 0
	}
	r := rand.New(rand.NewPCG(seed, 0x30fe))
	s.moves = true
	for i, script := range s.scripts {
		for j := range script {
			s.scripts[i][j].moved = r.IntN(2) == 0
		}
	}
	s.faults = slices.DeleteFunc(s.faults, func(f simFault) bool { return slices.Contains([]string{"drain", "move", "resize", "lower"}, f.what) })
	var at time.Duration
	for range 3 + r.IntN(6) {
		at += s.some(r, 1.5)
		s.faults = append(s.faults, simFault{at: at, what: "relocate", client: 0, n: r.IntN(1 << 20), lasts: s.some(r, 1.5)})
	}
	slices.SortStableFunc(s.faults, func(a, b simFault) int { return int(a.at - b.at) })
	return s
}

// movedPath is the other path of a lock.
func movedPath(lock string) string { return lock + "-2" }

// spelled is the path by which a step names a lock.
func (w *simWorld) spelled(lock string, st simStep) string {
	if w.plan.moves && st.moved {
		return movedPath(lock)
	}
	return w.node(lock)
}

// whereabouts are where a lock is now, and where it is not.
func (w *simWorld) whereabouts(lock string) (from, to string) {
	lock = strings.TrimSuffix(lock, movedPath(""))
	from, to = lock, movedPath(lock)
	n, _ := w.srv.Get(from)
	if p, err := kind.Decode(n.Data); err == nil && p.State == kind.StateMoved {
		return to, from
	}
	return from, to
}

// relocate moves a lock.
func (w *simWorld) relocate(f simFault) {
	w.moving <- struct{}{} // one apply at a time
	defer func() { <-w.moving }()
	lock := w.locks[f.n%len(w.locks)].path
	from, to := w.whereabouts(lock)
	p := w.declared[lock].params
	drained := f.n/8%4 != 0
	if drained {
		w.lab.declare(from, p, goingTo(to))
		if f.n/32%4 == 0 { // and crashes
			time.Sleep(f.lasts)
		}
	}
	waited := w.standsIn(from)
	for end := time.Now().Add(f.lasts); ; time.Sleep(max(time.Millisecond, w.plan.timeout/200)) {
		if len(w.standsIn(from)) == 0 && w.transact(p, from, to) {
			w.mu.Lock()
			w.stats.moved++
			if len(waited) > 0 {
				w.stats.movedInUse++
			}
			w.mu.Unlock()
			return
		}
		if !time.Now().Before(end) {
			break
		}
	}
	if drained {
		w.lab.declare(from, p)
	}
}

// standsIn are the contenders at a path.
func (w *simWorld) standsIn(path string) (names []string) {
	n, _ := w.srv.Get(path)
	for _, child := range n.Children {
		if k, _ := w.srv.Get(kind.JoinPath(path, child)); k.Stat.EphemeralOwner != 0 {
			names = append(names, child)
		}
		k, _ := w.srv.Get(kind.JoinPath(path, child))
		names = append(names, k.Children...)
	}
	return names
}

// transact makes the one transaction of a move, if nobody has come meanwhile, and finds out what became of it if its answer is lost.
func (w *simWorld) transact(p kind.Params, from, to string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for {
		err := w.mover.move(ctx, p, from, to)
		if err == nil {
			return true
		}
		if s, again := w.mover.client.Live(ctx); again == nil && s.Confirm(ctx, "/guarded") == nil {
			at, _ := w.whereabouts(from)
			return at != from
		}
		_ = harness.Pause(ctx, time.Second)
	}
}

// unmarked requires that nobody stands in what a move has left.
func (w *simWorld) unmarked() {
	if !w.plan.moves {
		return
	}
	for _, of := range w.locks {
		if _, mark := w.whereabouts(of.path); len(w.standsIn(mark)) > 0 {
			w.blame("%v stand in %s, which the lock has left", w.standsIn(mark), mark)
		}
	}
}
