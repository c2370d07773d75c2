package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// These tests cut the connection of one client after every byte (see cutStride) that it sends or receives. Meanwhile the client acquires a
// free lock, hands it over to a rival, waits for the rival, is granted and releases. No caller may notice a cut, at any offset: the session
// outlives the cut, so every call must succeed in bounded time and leave nothing.

// scene is such a run for one recipe, with the client whose connection is cut (the victim) and its rival.
type scene struct {
	name    string
	declare func(l *lab)
	dirs    []string // the directories of the queues
	play    func(s *stage)
}

// stage is a scene being played.
type stage struct {
	*lab
	victim, rival *recipes.Client
	dirs          []string
	last          uint64 // the newest exclusive token
	leases        []*recipes.Lease
	where         string
	struck        func() bool
}

func (s *stage) require(err error, what string) {
	s.T.Helper()
	require.NoError(s.T, err, "%s: %s", s.where, what)
}

// patient bounds every call of a scene: a call that takes longer counts as hung.
func (s *stage) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

// take acquires a lock and waits for the grant.
func (s *stage) take(what string, f taking) *recipes.Lease {
	s.T.Helper()
	ctx, cancel := s.patient()
	defer cancel()
	x, err := reached(f)(ctx)
	s.require(err, what)
	return s.granted(x)
}

// reached repeats a Try that fails because several cuts in a row have left it without a connection for a sixth of the session timeout.
// Such a Try fails at once. reached pauses before the next one, because in a bubble no time passes while a caller only tries again.
func reached(f taking) taking {
	return func(ctx context.Context) (*recipes.Lease, error) {
		for {
			x, err := f(ctx)
			if !errors.Is(err, recipes.ErrUnreachable) || harness.Pause(ctx, time.Second) != nil {
				return x, err
			}
		}
	}
}

// queue begins to acquire a lock, and lets the call get as far as it can.
func (s *stage) queue(f taking) func(what string) *recipes.Lease {
	ctx, cancel := s.patient()
	got := async(func() (*recipes.Lease, error) { return f(ctx) })
	time.Sleep(3 * time.Second) // longer than most reconnects take
	return func(what string) *recipes.Lease {
		s.T.Helper()
		defer cancel()
		r := <-got
		s.require(r.Err, what)
		return s.granted(r.V)
	}
}

// granted checks a grant: no contender is ahead, every earlier lease has ended, and the token is new.
func (s *stage) granted(x *recipes.Lease) *recipes.Lease {
	s.T.Helper()
	for _, node := range x.Nodes() { // a lease of several permits has several nodes in one queue
		line := s.lab.Queue(kind.ParentPath(node))
		require.Contains(s.T, x.Nodes(), line[0], "%s: granted while somebody is ahead", s.where)
		require.Contains(s.T, line, node, "%s: granted without a node", s.where)
	}
	for _, other := range s.leases {
		require.Error(s.T, other.Context().Err(), "%s: two believe to hold", s.where)
	}
	token := x.Token()
	require.Greater(s.T, token, s.last, "%s: token", s.where)
	s.last, s.leases = token, []*recipes.Lease{x}
	return x
}

func (s *stage) give(what string, x *recipes.Lease) {
	s.T.Helper()
	ctx, cancel := s.patient()
	defer cancel()
	s.require(x.Unlock(ctx), what)
}

// cutLab runs f in a bubble, with a victim behind a Cutter and with a rival. Both have played the scene once.
func cutLab(t *testing.T, sc scene, f func(s *stage, k *harness.Cutter)) {
	inLab(t, func(t *testing.T, l *lab) {
		sc.declare(l)
		k := &harness.Cutter{Next: l.Srv.DialContext}
		s := &stage{lab: l, dirs: sc.dirs, where: "uncut", struck: k.Struck}
		s.victim, s.rival = s.Awake("victim", k.Dial), s.Awake("rival", l.Srv.DialContext)
		sc.play(s)
		f(s, k)
	})
}

// clean requires that nothing is left of a run: no contender, no bytes counted for deleted nodes, no turn of a goroutine (package turn),
// and no watch except those on declarations.
func (s *stage) clean() {
	s.T.Helper()
	time.Sleep(3 * time.Second)
	for _, dir := range s.dirs {
		for range 100 { // a node that is deleted in the background goes when the client is connected again
			if len(s.Children(dir)) == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Empty(s.T, s.Children(dir), "%s: ghosts in %s\n%s", s.where, dir, s.Srv.Dump())
	}
	for _, c := range []*recipes.Client{s.victim, s.rival} {
		for range 10 { // a look for a late node may be under way at this moment (Txn.recheck)
			if len(c.Leftovers()) == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Empty(s.T, c.Leftovers(), "%s", s.where)
	}
}

// sweep plays the scene once for every offset (see cutStride) of one direction, until the offsets are beyond its end.
func sweep(t *testing.T, sc scene, dir harness.Direction, stride int) (offsets int) {
	cutLab(t, sc, func(s *stage, k *harness.Cutter) {
		session := s.SessionID(s.victim)
		for n, missed := 0, 0; missed < 8; n += stride {
			s.where = fmt.Sprintf("%s, cut behind byte %d %v", sc.name, n, dir)
			k.Arm(harness.Cut{Dir: dir, After: n})
			sc.play(s)
			if k.Disarm() == 0 {
				missed++ // perhaps not the end yet: a frame's length varies with the digits of a time
			} else {
				missed = 0
				offsets++
			}
			s.clean()
			require.Equal(t, session, s.SessionID(s.victim), "%s: a cut cost the session", s.where)
		}
	})
	return offsets
}

// cutStride returns the distance between the offsets for one recipe. The sweeps of the mutex and the key try every offset. Client and
// server do the same whether a frame ends after two or three of its bytes. So for the others, each frame (at least 16 bytes) is cut at five
// places or more. The longest scenes add little, so their distance is larger. CUTS_STRIDE=1 tries every offset of all recipes, and takes
// two minutes more.
func cutStride(recipe string) int {
	return cmp.Or(map[string]int{"mutex": 1, "key": 1, ofAllKinds: 11, ordersObeyed: 7}[recipe], 3)
}

const (
	ofAllKinds   = "multi-lock of all kinds"
	ordersObeyed = "mutex, asked back and drained"
)

func TestACutBehindEveryByteIsInvisibleToCallers(t *testing.T) {
	effort.Proof(t)
	counts := make(chan string, 100)
	start := time.Now()
	t.Run("sweep", func(t *testing.T) {
		for _, sc := range scenes() {
			for _, dir := range []harness.Direction{harness.ToServer, harness.ToClient} {
				t.Run(fmt.Sprintf("%s %v", sc.name, dir), func(t *testing.T) {
					t.Parallel()
					stride := envInt("CUTS_STRIDE", effort.Of(1, 20)*cutStride(sc.name))
					n := sweep(t, sc, dir, stride)
					require.Greater(t, n, 500/stride, "the cuts did not reach what they should")
					counts <- fmt.Sprintf("%5d offsets %v, one in %d: %s", n, dir, stride, sc.name)
				})
			}
		}
	})
	close(counts)
	for line := range counts {
		t.Log(line)
	}
	t.Logf("in %v", time.Since(start).Round(time.Millisecond))
}

// While the client searches for the outcome that a cut left unknown, its connection is cut up to four times more. The seed decides after
// which bytes.
func TestCutsInTheMiddleOfCuringACutLeaveNothing(t *testing.T) {
	effort.Proof(t)
	rounds := effort.Of(150, 8)
	t.Run("sweep", func(t *testing.T) {
		for i, sc := range scenes() {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(uint64(i), 4))
				cutLab(t, sc, func(s *stage, k *harness.Cutter) {
					total := 0
					for round := range rounds {
						cuts := []harness.Cut{{Dir: harness.Direction(rnd.IntN(2)), After: rnd.IntN(1500)}}
						for range 1 + rnd.IntN(4) {
							cuts = append(cuts, harness.Cut{Dir: harness.Direction(rnd.IntN(2)), After: rnd.IntN(300)})
						}
						s.where = fmt.Sprintf("%s, round %d, cuts %v", sc.name, round, cuts)
						k.Arm(cuts...)
						sc.play(s)
						total += k.Disarm()
						s.clean()
					}
					require.Greater(t, total, rounds, "the cuts did not reach what they should")
				})
			})
		}
	})
}

func scenes() []scene {
	return []scene{
		{"mutex", func(l *lab) { l.Mutex() }, []string{"/m"}, func(s *stage) {
			ours, theirs := s.victim.Mutex("/m"), s.rival.Mutex("/m")
			s.alternate(ours.Lock, theirs.Lock)
			x := s.take("acquire", ours.TryLock)
			second := s.queue(ours.Lock) // in the same client, which replaces its contender
			s.give("release to a goroutine", x)
			s.give("release", second("goroutine's grant"))
		}},
		{ordersObeyed, func(l *lab) { l.Mutex() }, []string{"/m"}, playOrders},
		{"read-write lock, writers", func(l *lab) { l.RWLock() }, []string{"/rw"}, func(s *stage) {
			s.alternate(s.victim.RWMutex("/rw").Lock, s.rival.RWMutex("/rw").Lock)
		}},
		{"read-write lock, readers", func(l *lab) { l.RWLock() }, []string{"/rw"}, playReaders},
		{"semaphore", func(l *lab) { l.Semaphore(2) }, []string{"/s/leases", "/s/locks"}, func(s *stage) {
			s.alternatePermits(draws(2)(s.victim), draws(2)(s.rival))
		}},
		{"semaphore, some of several", func(l *lab) { l.Semaphore(3) }, []string{"/s/leases", "/s/locks"}, playPermits},
		{"election", func(l *lab) { l.Election() }, []string{"/e"}, func(s *stage) {
			s.alternate(campaign(s.victim), campaign(s.rival))
		}},
		{"election, watched", func(l *lab) { l.Election() }, []string{"/e"}, playWatched},
		{"multi-lock", func(l *lab) { l.Mutexes(2) }, []string{"/m0", "/m1"}, func(s *stage) {
			s.alternate(multi(s.victim, "/m0", "/m1").Lock, multi(s.rival, "/m1", "/m0").Lock)
		}},
		{"key", func(l *lab) { l.families() }, []string{"/km"}, func(s *stage) {
			ours, theirs := s.victim.Keyed("/km").Mutex("1"), s.rival.Keyed("/km").Mutex("1")
			s.alternate(ours.Lock, theirs.Lock)
			x := s.take("acquire", ours.TryLock)
			second := s.queue(ours.Lock)
			s.give("release to a goroutine", x)
			s.give("release", second("goroutine's grant"))
			s.give("rival's release", s.take("rival's grant", theirs.Lock))
		}},
		{"set of keys", func(l *lab) { l.families() }, []string{"/km"}, func(s *stage) {
			set := func(c *recipes.Client, keys ...string) taking {
				return locked(c.Keyed("/km"), keys...)
			}
			s.alternate(set(s.victim, "1", "2"), set(s.rival, "2", "3"))
		}},
		{"key of a semaphore", func(l *lab) { l.family("/s", &kind.KeyedParams{Of: "semaphore", Permits: 2}) }, []string{"/s"}, func(s *stage) {
			draw := func(c *recipes.Client) taking {
				return permits(c.Keyed("/s").Semaphore("1"), 2)
			}
			s.alternatePermits(draw(s.victim), draw(s.rival))
		}},
		{"stream", func(l *lab) { l.Mutexes(2) }, []string{"/m0", "/m1"}, func(s *stage) {
			s.playStream(func(c *recipes.Client, i int) *recipes.Mutex { return c.Mutex("/m" + strconv.Itoa(i)) })
		}},
		{"stream of keys", func(l *lab) { l.families() }, []string{"/km"}, func(s *stage) {
			s.playStream(func(c *recipes.Client, i int) *recipes.Mutex { return c.Keyed("/km").Mutex(strconv.Itoa(i)) })
		}},
		{ofAllKinds, func(l *lab) {
			l.Mutex()
			l.RWLock()
			l.Election()
		}, []string{"/m", "/rw", "/e"}, func(s *stage) {
			all := func(c *recipes.Client) taking {
				return c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw"), c.Election("/e")).Lock
			}
			s.alternate(all(s.victim), all(s.rival))
		}},
	}
}

// alternate acquires an exclusive lock, hands it over to the rival, waits, is granted and releases.
func (s *stage) alternate(ours, theirs taking) {
	x := s.take("acquire", ours)
	next := s.queue(theirs)
	s.give("release to the rival", x)
	y := next("rival's grant")
	again := s.queue(ours)
	s.give("rival's release", y)
	s.give("last release", again("grant after waiting"))
}

// drawing begins to take permits, and lets the call get as far as it can. The function that it returns checks the grant: see permitted.
func (s *stage) drawing(f taking) func(what string) *recipes.Lease {
	ctx, cancel := s.patient()
	got := async(func() (*recipes.Lease, error) { defer cancel(); return f(ctx) })
	time.Sleep(3 * time.Second)
	return func(what string) *recipes.Lease {
		s.T.Helper()
		r := <-got
		s.require(r.Err, what)
		return s.permitted(r.V)
	}
}

// permitted checks a grant of permits: they exist, and the permits of all leases that have not ended are within the limit.
func (s *stage) permitted(x *recipes.Lease) *recipes.Lease {
	s.T.Helper()
	believed := []*recipes.Lease{x}
	permits := len(x.Nodes())
	for _, other := range s.leases {
		if other.Context().Err() == nil {
			believed = append(believed, other)
			permits += len(other.Nodes())
		}
	}
	for _, node := range x.Nodes() {
		_, there := s.Srv.Get(node)
		require.True(s.T, there, "%s: a permit that does not exist", s.where)
	}
	n, _ := s.Srv.Get("/s")
	payload := must(kind.Decode(n.Data))(s.T)
	p := payload.Params
	if p.Kind() == kind.Keyed {
		p = kind.Keyed.Key(p)
	}
	limit := p.(*kind.SemaphoreParams).Permits
	require.LessOrEqual(s.T, permits, limit, "%s: permits of %d", s.where, limit)
	s.leases = believed
	return x
}

// alternatePermits is alternate, with the checks that fit permits.
func (s *stage) alternatePermits(ours, theirs taking) {
	x := s.drawing(ours)("acquire")
	next := s.drawing(theirs)
	s.give("release to the rival", x)
	y := next("rival's grant")
	again := s.drawing(ours)
	s.give("rival's release", y)
	s.give("last release", again("grant after waiting"))
}

// playPermits lets several calls take some of three permits, ahead of others that want more.
func playPermits(s *stage) {
	one := reached(func(ctx context.Context) (*recipes.Lease, error) { return s.victim.Semaphore("/s").TryAcquire(ctx, 1) })
	a := s.drawing(one)("one of three")
	b := s.drawing(draws(2)(s.rival))("the other two")
	c := s.drawing(draws(2)(s.victim))
	s.stand("/s/locks", 1) // otherwise the next one would be ahead
	d := s.drawing(draws(3)(s.rival))
	s.give("release of two", b)
	two := c("two again")
	s.give("release of one", a)
	s.give("release of two", two)
	s.give("release of all", d("all three"))
}

// playReaders takes the write lock, downgrades it, and hands the lock over to a rival writer.
func playReaders(s *stage) {
	ours, theirs := s.victim.RWMutex("/rw"), s.rival.RWMutex("/rw")
	x := s.take("write", ours.Lock)
	waiting := s.queue(theirs.Lock)
	ctx, cancel := s.patient()
	defer cancel()
	down, err := ours.Downgrade(ctx, x)
	s.require(err, "downgrade")
	require.Error(s.T, x.Context().Err(), "%s: the write lease outlived its exchange", s.where)
	require.NoError(s.T, down.Context().Err(), s.where)
	s.give("release of the reader", down)
	y := waiting("rival's grant")
	again := s.queue(ours.RLock)
	s.give("rival's release", y)
	s.give("last release", again("read after waiting"))
}

// playOrders revokes the lock of a holder and the place of a waiter, drains the lock, and puts it into use again.
func playOrders(s *stage) {
	ours, theirs := s.victim.Mutex("/m"), s.rival.Mutex("/m")
	x := s.take("acquire", ours.Lock)
	require.NoError(s.T, s.Srv.Set(x.Node(), []byte(kind.RevokeMessage)))
	select {
	case <-x.Context().Done():
		require.ErrorIs(s.T, context.Cause(x.Context()), recipes.ErrRevoked, s.where)
	case <-time.After(30 * time.Second):
		require.Fail(s.T, "the holder was not asked", s.where)
	}
	s.give("release of what is asked back", x)

	y := s.take("rival's acquire", theirs.Lock)
	s.sentAway(ours.Lock, recipes.ErrRevoked, func() {
		s.stand("/m", 2)
		require.NoError(s.T, s.Srv.Set(s.lab.Queue("/m")[1], []byte(kind.RevokeMessage)))
	})
	s.sentAway(ours.Lock, recipes.ErrDraining, func() { s.Declare("/m", kind.Mutex.New(), draining) })
	s.inUse()
	again := s.queue(ours.Lock)
	s.give("rival's release", y)
	s.give("last release", again("grant after waiting"))
}

// inUse ends draining, and gives a client that is cut off the time to learn of it.
func (s *stage) inUse() {
	s.Declare("/m", kind.Mutex.New(), active)
	time.Sleep(3 * time.Second)
}

// stand returns when n contenders are in a queue, however often their connection is cut.
func (s *stage) stand(dir string, n int) {
	s.T.Helper()
	for range 200 {
		if len(s.lab.Queue(dir)) == n {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.Failf(s.T, "nobody came", "%s: %v in %s, not %d", s.where, s.lab.Queue(dir), dir, n)
}

// sentAway begins to wait for a lock, and calls the function in the parameter then. It requires that the wait fails with the error want.
func (s *stage) sentAway(f taking, want error, then func()) {
	s.T.Helper()
	ctx, cancel := s.patient()
	defer cancel()
	got := async(func() (*recipes.Lease, error) { return f(ctx) })
	time.Sleep(3 * time.Second)
	then()
	r := <-got
	require.ErrorIs(s.T, r.Err, want, s.where)
}

// playWatched campaigns in an election that the victim observes through the same connection. The observation must follow the changes, and
// end with the final state.
func playWatched(s *stage) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen, over := make(chan recipes.Contender, 64), make(chan struct{})
	go func() {
		defer close(over)
		for c, err := range s.victim.Election("/e").Observe(ctx) {
			s.require(err, "observation")
			seen <- c
		}
	}()
	follows := func(path string) {
		s.T.Helper()
		for timeout := time.After(30 * time.Second); ; {
			select {
			case c := <-seen:
				if c.Path == path {
					return
				}
			case <-timeout:
				require.Failf(s.T, "not observed", "%s: that %q leads", s.where, path)
			}
		}
	}
	follows("")
	x := s.take("rival leads", campaign(s.rival))
	follows(x.Node())
	next := s.queue(campaign(s.victim))
	s.give("rival resigns", x)
	y := next("victim leads")
	follows(y.Node())
	leader, there, err := s.victim.Election("/e").Leader(ctx)
	for err != nil && s.struck() {
		leader, there, err = s.victim.Election("/e").Leader(ctx)
	}
	s.require(err, "who leads")
	require.True(s.T, there && leader.Path == y.Node(), "%s: %v leads", s.where, leader.Path)
	s.give("victim resigns", y)
	follows("")
	cancel()
	<-over
}

// playStream goes from lock to lock with Release, which waits for no answer. A rival wants one of the locks.
func (s *stage) playStream(lock func(c *recipes.Client, i int) *recipes.Mutex) {
	theirs := lock(s.rival, 1)
	s.take("acquire", lock(s.victim, 0).Lock).Release()
	s.take("acquire behind a release", lock(s.victim, 1).Lock).Release()
	s.elsewhere()
	s.give("rival's release of what was released", s.take("rival's acquire of that", theirs.Lock))
	s.take("acquire behind the rival", lock(s.victim, 1).Lock).Release()
	s.elsewhere()
	s.take("acquire behind its own release", lock(s.victim, 1).Lock).Release()
}

// elsewhere forgets the earlier grants, so the checks of the next grant ignore them.
func (s *stage) elsewhere() { s.last, s.leases = 0, nil }
