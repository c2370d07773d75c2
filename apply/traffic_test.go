package apply_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// changing are locks of four kinds. The paths of two of them change with that of the namespace around them.
var changing = []struct {
	name string
	kind *kind.Kind
}{
	{"mutex", kind.Mutex}, {"rwlock", kind.RWLock}, {"semaphore", kind.Semaphore}, {"election", kind.Election},
	{"pay/ledger", kind.Mutex}, {"pay/pool", kind.Semaphore},
}

const here, there = "/here-", "/there-"

// on declares the locks at paths that begin with one of the two sides: here or there.
func (s *site) on(side string) *plan.Tree {
	nodes := []*plan.Node{declare(side+"pay", kind.Namespace, at("pay.namespace"))}
	for _, m := range changing {
		n := declare(side+m.name, m.kind, at(strings.ReplaceAll(m.name, "/", ".")+"."+m.kind.Name))
		if nodes = append(nodes, n); m.kind == kind.Semaphore {
			set("permits", 3)(n)
		}
	}
	return s.tree(nodes...)
}

// slow are servers that answer so late that programs can try to take the locks between two requests of an apply.
var slow = []zktest.Option{zktest.WithLatency(time.Millisecond)}

// trafficScene gives locks the paths of the other side, while programs use them by handles on both paths. A lock whose path changes is one
// lock: two programs never hold it at once, one at each path. Programs at the new path get it once the next apply has finished. Those at
// the old path learn that it is not there.
func trafficScene(like traffic) func(*testing.T, *site, *recipes.Client) *scene {
	return func(t *testing.T, s *site, c *recipes.Client) *scene {
		before, after := s.on(here), s.on(there)
		if like.back {
			s.apply(c, after)
		}
		s.apply(c, before)
		w := like
		w.start(s)
		opts := plan.Options{}
		if w.drained {
			opts.Drain = time.Minute
			w.call(standing, 300*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
			require.GreaterOrEqual(t, len(w.queued()), 2*len(changing), "each is held and waited for")
		}
		require.Equal(t, w.drained, len(s.plan(c, after, opts).InUse()) > 0)
		meanwhile := w.duringWrites()
		// Programs that call at the other path get their locks only from an apply, so leave does not wait for them.
		leave := func() {
			meanwhile.Remove()
			time.Sleep(10 * time.Second)
			require.Empty(t, w.queued(), "nothing keeps them from coming to their end")
		}
		return &scene{
			tree: after, options: opts, again: opts,
			ends: func(err error) {
				var used *failure.InUseError
				if w.drained || !errors.As(err, &used) { // a program may have taken a lock meanwhile
					require.NoError(t, err)
				}
			},
			struck: func(bool) {
				w.call(late, 20*time.Millisecond)
				if time.Sleep(10 * time.Second); !w.drained {
					leave()
				}
			},
			overtaken: leave,
			finished: func() {
				w.call(slices.Concat(standing, late), time.Millisecond)
				w.arrive()
				meanwhile.Remove()
				require.Empty(t, w.queued(), "contenders are left")
			},
		}
	}
}

// role is what a program does, and the side of its handles.
type role struct {
	name, side string
	known      bool // it has used the locks before
}

var (
	standing = []role{{"holds", here, true}, {"waits", here, true}, {"waits", there, true}}
	late     = []role{{"calls", here, true}, {"calls", there, true}, {"starts", here, false}, {"starts", there, false}, {"tries", here, true}}
)

// traffic are programs that use the locks.
type traffic struct {
	drained bool // the locks are held and waited for when the apply begins
	back    bool // they have been on the other side before

	*site
	rand     *rand.Rand
	programs map[role][]*program
	sessions map[int64]bool
	ctx      context.Context // ends with the test, even if it fails
	calls    *sync.WaitGroup

	mu    *sync.Mutex
	inUse map[string]int    // how much of each lock is held
	last  map[string]uint64 // the newest token of each lock that one program had alone
}

// program uses one lock, by a handle that it has from the beginning.
type program struct {
	role
	lock      string
	path      string
	take      func(context.Context) (*recipes.Lease, error)
	share, of int // how much of the lock it takes
}

// start opens the locks. Programs that are to have used the locks before use them now.
func (w *traffic) start(s *site) {
	ctx, cancel := context.WithCancel(s.t.Context())
	w.site, w.ctx, w.calls, w.mu = s, ctx, &sync.WaitGroup{}, &sync.Mutex{}
	s.t.Cleanup(func() { cancel(); w.calls.Wait() })
	w.rand, w.programs, w.sessions = rand.New(rand.NewPCG(s.seed, 1)), map[role][]*program{}, map[int64]bool{}
	w.inUse, w.last = map[string]int{}, map[string]uint64{}
	for i, r := range slices.Concat(standing, late) {
		c := s.dial("worker:w")
		w.sessions[s.session(c).ID()] = true
		for j, m := range changing {
			p := &program{role: r, lock: m.name, path: s.root + r.side + m.name}
			p.handle(c, m.kind, i+j)
			w.programs[r] = append(w.programs[r], p)
		}
		if r.known && r.side == here {
			w.call([]role{r}, 0)
			w.calls.Wait()
		}
		for _, p := range w.programs[r] {
			if r.known && r.side == there {
				_, err := p.take(ctx)
				require.ErrorIs(s.t, err, recipes.ErrNotProvisioned)
			}
		}
	}
}

func (p *program) String() string {
	return fmt.Sprintf("the program that %s by %s%s", p.name, p.side, p.lock)
}

// handle opens the lock.
func (p *program) handle(c *recipes.Client, k *kind.Kind, n int) {
	path := p.path
	p.share, p.of = 1, 1
	switch {
	case k == kind.RWLock && n%2 == 0:
		p.take, p.of = c.RWMutex(path).RLock, 100
	case k == kind.RWLock:
		p.take, p.share, p.of = c.RWMutex(path).Lock, 100, 100
	case k == kind.Semaphore:
		p.share, p.of = 1+n%3, 3
		p.take = func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore(path).Acquire(ctx, p.share) }
	case k == kind.Election:
		p.take = c.Election(path).Campaign
	case p.name == "tries":
		p.take = c.Mutex(path).TryLock
	default:
		p.take = c.Mutex(path).Lock
	}
}

// call has programs take their locks, each at some moment of the next 12 milliseconds.
func (w *traffic) call(roles []role, hold time.Duration) {
	for _, r := range roles {
		for _, p := range w.programs[r] {
			delay := time.Duration(0)
			if r.name != "holds" {
				w.mu.Lock()
				delay = time.Duration(w.rand.IntN(12_000)) * time.Microsecond
				w.mu.Unlock()
			}
			w.calls.Go(func() {
				time.Sleep(delay)
				w.use(p, hold)
			})
		}
	}
}

// duringWrites has programs call at each write of an apply, until the injection is removed. If the queues must be empty, they call only
// when the apply changes the paths.
func (w *traffic) duringWrites() *zktest.Injection {
	n := 0
	return w.server.Inject(func(r zktest.Request) bool {
		if !writes(r.Op) || w.sessions[r.Session] {
			return false
		}
		n++
		if w.drained {
			w.call([]role{late[n%len(late)], late[(n+1)%len(late)]}, 10*time.Millisecond)
		} else if len(r.Paths) > len(changing) {
			w.call(late, time.Millisecond)
		}
		return false
	}, zktest.Fault{})
}

// use takes a lock for a while, unless its path has changed.
func (w *traffic) use(p *program, hold time.Duration) {
	l, err := p.take(w.ctx)
	for w.again(p, err) && w.ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		l, err = p.take(w.ctx)
	}
	if p.side == here && errors.Is(err, recipes.ErrNotProvisioned) {
		assert.ErrorContains(w.t, err, p.path)
		return
	}
	if w.ctx.Err() != nil || !assert.NoError(w.t, err, "%v", p) {
		return
	}
	w.granted(p, l)
	time.Sleep(hold)
	assert.NoError(w.t, l.Context().Err(), "%v lost it", p)
	w.mu.Lock()
	w.inUse[p.lock] -= p.share
	w.mu.Unlock()
	assert.NoError(w.t, l.Unlock(w.ctx))
}

// again reports whether to try again: the lock does not exist yet, or is draining, or a try found it held.
func (w *traffic) again(p *program, err error) bool {
	return p.side == there && errors.Is(err, recipes.ErrNotProvisioned) || errors.Is(err, recipes.ErrDraining) ||
		p.name == "tries" && errors.Is(err, recipes.ErrHeld)
}

func (w *traffic) granted(p *program, l *recipes.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inUse[p.lock] += p.share
	assert.LessOrEqual(w.t, w.inUse[p.lock], p.of, "%v has at %s what another one has, too", p, l.Path())
	assert.Greater(w.t, l.Token(), w.last[p.lock], "%v: the token went back", p)
	if p.share == p.of {
		w.last[p.lock] = l.Token()
	}
}

// arrive waits until every program had its lock, or knows that its path has changed.
func (w *traffic) arrive() {
	done := make(chan struct{})
	go func() {
		w.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		require.Fail(w.t, "somebody never had the lock", w.server.Dump())
	}
}

// queued returns the contenders of the locks, at both paths.
func (w *traffic) queued() (out []string) {
	for _, m := range changing {
		for _, side := range []string{here, there} {
			path := w.root + side + m.name
			n, _ := w.server.Get(path)
			for _, child := range n.Children {
				if slices.Contains(m.kind.Children, child) {
					part, _ := w.server.Get(kind.JoinPath(path, child))
					out = append(out, part.Children...)
				} else {
					out = append(out, fmt.Sprintf("%s/%s", path, child))
				}
			}
		}
	}
	return out
}
