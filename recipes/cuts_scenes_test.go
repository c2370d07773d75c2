package recipes_test

import (
	"context"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func scenes() []scene {
	return []scene{
		{"mutex", func(l *lab) { l.Mutex() }, []string{"/m"}, func(s *stage) {
			ours, theirs := s.victim.Mutex("/m"), s.rival.Mutex("/m")
			s.alternate(ours.Lock, theirs.Lock)
			x := s.take("acquire", ours.TryLock)
			second := s.queue(ours.Lock) // in the process: the contender is rotated
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

// alternate is acquire, hand-off, wait, grant and release of an exclusive lock.
func (s *stage) alternate(ours, theirs taking) {
	x := s.take("acquire", ours)
	next := s.queue(theirs)
	s.give("release to the rival", x)
	y := next("rival's grant")
	again := s.queue(ours)
	s.give("rival's release", y)
	s.give("last release", again("grant after waiting"))
}

// drawing begins to take permits and lets it come as far as it gets. Its answer is checked for what permits must be.
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

// permitted checks a grant of permits: they exist, and all that are believed in are not more than there are.
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
	payload, err := kind.Decode(n.Data)
	require.NoError(s.T, err)
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

// playPermits lets several take some of three permits, in front of others that want more.
func playPermits(s *stage) {
	one := reached(func(ctx context.Context) (*recipes.Lease, error) { return s.victim.Semaphore("/s").TryAcquire(ctx, 1) })
	a := s.drawing(one)("one of three")
	b := s.drawing(draws(2)(s.rival))("the other two")
	c := s.drawing(draws(2)(s.victim))
	s.stand("/s/locks", 1) // or the next one would be ahead
	d := s.drawing(draws(3)(s.rival))
	s.give("release of two", b)
	two := c("two again")
	s.give("release of one", a)
	s.give("release of two", two)
	s.give("release of all", d("all three"))
}

// playReaders writes, changes to reading, and hands over to a rival writer.
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

// playOrders: a holder and a waiter are asked to leave, and the lock is drained and in use again.
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

// inUse ends draining, and gives a client that is cut off the time to hear of it.
func (s *stage) inUse() {
	s.Declare("/m", kind.Mutex.New(), active)
	time.Sleep(3 * time.Second)
}

// stand returns when n stand in a queue, however often their connection is cut.
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

// sentAway begins to wait and requires that what happens then is told.
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

// playWatched stands for an election that is observed through the same connection: the observation must follow, and
// end with what is.
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

// playStream goes from lock to lock by releases that nobody waits for; a rival wants one of the locks.
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

// elsewhere forgets what was granted: what comes is of other locks.
func (s *stage) elsewhere() { s.last, s.leases = 0, nil }
