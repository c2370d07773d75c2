package session

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestWatchFiresForChangeAndDeletion(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/a", 0)
		data := s.watch(t, "/a")
		list := s.watchList(t, "/a")
		require.Zero(t, data.Event())
		require.NoError(t, srv.Create("/a/b", nil))
		<-list.C()
		require.Equal(t, zk.EventNodeChildrenChanged, list.Event())
		require.Zero(t, data.Event(), "a child is no data")
		require.NoError(t, srv.Set("/a", []byte("x")))
		<-data.C()
		require.Equal(t, zk.EventNodeDataChanged, data.Event())
		data = s.watch(t, "/a")
		list = s.watchList(t, "/a")
		require.NoError(t, srv.Delete("/a"))
		<-data.C()
		<-list.C()
		require.Equal(t, zk.EventNodeDeleted, data.Event())
		_, _, none, err := s.GetW(t.Context(), "/none")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.Nil(t, none)
		synctest.Wait()
		require.Zero(t, watchesOn(t, s))
		require.Empty(t, s.watches)
	})
}

// With raw go-zookeeper, a loop of cancels and retries leaks a watch on the server each time.
func TestWatchersShareOneServerWatchAndAllHearOfItsEvent(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/a", 0)
		for range 1000 {
			w := s.watch(t, "/a")
			w.Stop()
			w.Stop()
		}
		require.Empty(t, s.watches)
		var all []*Watch
		for range 100 {
			all = append(all, s.watch(t, "/a"))
		}
		srv.ResetCounts()
		require.NoError(t, srv.Set("/a", []byte("x")))
		for _, w := range all {
			hostile.Soon(t, w.C(), "an event was dropped") // case 34: go-zookeeper's event channel of 6 drops the rest
			require.Equal(t, zk.EventNodeDataChanged, w.Event())
		}
		require.Equal(t, 1, srv.Counts().WatchEvents)
	})
}

// One request watches several nodes. A change that has already happened fires the watch at once, and the watch is not left on the
// server.
func TestSetWatchesTellsWhatHasHappenedAtOnce(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		for _, path := range []string{"/same", "/changed", "/list", "/grown"} {
			s.mustCreate(t, path, 0)
		}
		_, stat, err := s.Get(t.Context(), "/grown") // the newest
		require.NoError(t, err)
		require.NoError(t, srv.Set("/changed", []byte("x")))
		require.NoError(t, srv.Create("/grown/child", nil))
		srv.ResetCounts()
		set, err := s.SetWatches(t.Context(), stat.Czxid, []string{"/same", "/changed", "/missing"}, []string{"/list", "/grown"}, nil)
		require.NoError(t, err)
		require.Equal(t, 1, srv.Counts().Total)
		events := func() (all []zk.EventType) {
			synctest.Wait()
			for _, w := range set {
				all = append(all, w.Event())
			}
			return all
		}
		require.Equal(t, []zk.EventType{0, zk.EventNodeDataChanged, zk.EventNodeDeleted, 0, zk.EventNodeChildrenChanged}, events())
		require.Equal(t, 2, watchesOn(t, s), "of what was the same")
		require.NoError(t, srv.Set("/list", []byte("x")))
		require.Zero(t, events()[3], "data are no children")
		require.NoError(t, srv.Delete("/list"))
		require.NoError(t, srv.Set("/same", []byte("x")))
		require.Equal(t, []zk.EventType{zk.EventNodeDataChanged, zk.EventNodeDataChanged, zk.EventNodeDeleted, zk.EventNodeDeleted, zk.EventNodeChildrenChanged}, events())
		require.Zero(t, watchesOn(t, s))
		require.Empty(t, s.watches)

		_, err = s.SetWatches(t.Context(), 0, []string{"/same"}, []string{"no path"}, nil)
		require.ErrorIs(t, err, zk.ErrInvalidPath)
		require.Empty(t, s.watches)
	})
}

// go-zookeeper#83: data and child watches can be lost across a reconnect, so every waiter reads again.
func TestReconnectWakesEveryWaiter(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/a", 0)
		data := s.watch(t, "/a")
		list := s.watchList(t, "/a")
		srv.Disconnect(s.ID())
		hostile.Soon(t, data.C(), "the data may have changed meanwhile")
		hostile.Soon(t, list.C(), "the children may have changed meanwhile")
		require.Equal(t, zk.EventSession, data.Event())
		again := s.watch(t, "/a")
		require.NoError(t, srv.Set("/a", []byte("x")))
		<-again.C()
	})
}

// No interleaving of change, read and reconnect may leave a waiter asleep on old data.
func TestNoChangeIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(time.Millisecond))
		require.NoError(t, srv.Create("/a", []byte("0")))
		_, s := open(t, srv)
		const changes = 300
		var wg sync.WaitGroup
		for reader := range 5 {
			wg.Go(func() {
				for {
					data, _, w, err := s.GetW(t.Context(), "/a")
					require.NoError(t, err)
					if string(data) == fmt.Sprint(changes) {
						w.Stop()
						return
					}
					<-w.C()
					w.Stop()
					time.Sleep(time.Duration(reader) * 700 * time.Microsecond)
				}
			})
		}
		for i := range changes {
			time.Sleep(time.Duration(i%7) * 500 * time.Microsecond)
			if i%23 == 0 {
				srv.Disconnect(s.ID())
			}
			require.NoError(t, srv.Set("/a", []byte(fmt.Sprint(i+1))))
		}
		wg.Wait()
	})
}

// A server that is behind the session's newest zxid then refuses the session. (go-zookeeper/zk#35: its zxid is a data race.)
func TestAConnectRequestHasTheNewestZxid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connects []int64
		serve := func(c net.Conn) {
			connect := wire.Decoder{B: hostile.ReadFrame(c)}
			connect.Int32()
			connects = append(connects, connect.Int64())
			_, _ = c.Write(grantOf(7, 9000))
			for zxid := int64(100); ; zxid++ {
				body := hostile.ReadFrame(c)
				if body == nil {
					return
				}
				switch r := parseRequest(body); r.op {
				case wire.OpGetData:
					_, _ = c.Write(hostile.Frame(hostile.Cat(hostile.Be32(r.xid), hostile.Be64(zxid), hostile.Be32(0), hostile.Be32(0), make([]byte, statSize))...))
				default:
					_, _ = c.Write(hostile.Frame(hostile.Cat(hostile.Be32(r.xid), hostile.Be64(0), hostile.Be32(0))...))
				}
				if len(connects) == 1 && zxid == 102 {
					return
				}
			}
		}
		_, s := meet(t, serve)
		w := s.watch(t, "/a")
		s.mustRead(t, "/a")
		_, _, _ = s.Get(t.Context(), "/a") // zxid 102, then the end
		<-w.C()
		s.mustRead(t, "/a")
		require.Equal(t, []int64{0, 102}, connects)
		require.NoError(t, s.client.Close())
	})
}

func TestABurstOfTenThousandEventsHidesNoLoss(t *testing.T) { // case 34: go-zookeeper's event channel holds 6, and drops
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		const nodes = 10_000
		for i := range nodes {
			require.NoError(t, srv.Create(fmt.Sprintf("/burst/%d", i), nil))
		}
		s.mustCreate(t, "/mine", zk.FlagEphemeral)
		told := make(chan error, 1)
		release, err := s.hold(func(err error) { told <- err }, "/mine")
		require.NoError(t, err)
		defer release()
		watches := make([]*Watch, nodes)
		var wg sync.WaitGroup
		for part := range 20 {
			wg.Go(func() {
				for i := part; i < nodes; i += 20 {
					_, _, watches[i], _ = s.GetW(t.Context(), fmt.Sprintf("/burst/%d", i))
				}
			})
		}
		wg.Wait()
		for i := range nodes {
			require.NoError(t, srv.Delete(fmt.Sprintf("/burst/%d", i)))
		}
		srv.Expire(s.ID())
		require.ErrorIs(t, <-told, errExpired)
		deleted := 0
		for _, w := range watches {
			<-w.C()
			if w.Event() == zk.EventNodeDeleted {
				deleted++
			}
		}
		require.Equal(t, nodes, deleted, "the deletions came before the expiry")
	})
}

// Watches come, go and fire in any order. Each watch that is not stopped is called once, and none is kept.
func TestEveryWatchFiresOnceUnlessItIsStopped(t *testing.T) {
	key := watchKey{path: "/a"}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := &Session{watches: map[watchKey]*Watch{}}
		var all []*Watch
		var called, want []int // by watch
		fire := func() {
			if r.IntN(2) == 0 {
				s.fireAt(key, zk.EventNodeDataChanged)
			} else {
				s.fireAll(zk.EventSession)
			}
		}
		for range 40 {
			switch i := len(all); r.IntN(7) {
			case 0, 1, 2:
				called, want = append(called, 0), append(want, 1)
				all = append(all, s.attach(key, func() { called[i]++ }))
			case 3, 4, 5:
				if i == 0 {
					continue
				}
				i = r.IntN(i)
				all[i].Stop()
				want[i] = called[i]
			default:
				fire()
			}
			live := 0
			for w := s.watches[key]; w != nil; w = w.next {
				live++
			}
			for i := range want {
				live -= want[i] - called[i]
			}
			require.Zero(t, live)
		}
		fire()
		require.Equal(t, want, called)
		require.Empty(t, s.watches)
	}
}

// watchesOn returns how many watches the server of s has, of all sessions.
func watchesOn(t *testing.T, s *Session) (n int) {
	t.Helper()
	require.NoError(t, s.Aside(t.Context(), s.At(), []byte("mntr"), func(r io.Reader) error {
		text, err := io.ReadAll(r)
		_, count, _ := strings.Cut(string(text), "zk_watch_count\t")
		n, _ = strconv.Atoi(strings.Fields(count)[0])
		return err
	}))
	return n
}

// Stop leaves the watch on the server. There, the watches of paths that were used once added up until the connection ended.
func TestARemovedWatchIsOffTheServer(t *testing.T) {
	inSlowSession(t, time.Millisecond, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		_, other := open(t, srv)
		s.mustCreate(t, "/a", 0)
		theirs, ours, beside := other.watch(t, "/a"), s.watch(t, "/a"), s.watch(t, "/a")
		list := s.watchList(t, "/a")
		srv.ResetCounts()
		ours.Remove()
		ours.Remove()
		time.Sleep(time.Second)
		require.Zero(t, srv.Counts().Total, "another shares it")
		beside.Remove()
		beside.Remove()
		time.Sleep(time.Second)
		require.Equal(t, map[string]int{"removeWatches": 1}, srv.Counts().ByOp)
		require.Equal(t, 2, watchesOn(t, s), "that of the children, and the other session's")
		require.NoError(t, srv.Set("/a", nil))
		<-theirs.C()
		require.NoError(t, srv.Create("/a/b", nil))
		<-list.C()
		require.Equal(t, zk.EventNodeChildrenChanged, list.Event())
		require.Equal(t, 1, srv.SessionCounts(s.ID()).WatchEvents, "none for the data")
		require.Zero(t, watchesOn(t, s))
		require.NoError(t, s.Err())
	})
}

// A read sets the watch again while it is being removed: the read must not overtake the request to remove it.
func TestARemovedWatchTakesNoOtherAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Pointer[func()]
		srv := zktest.Start(t)
		c, err := newClient(Config{Servers: []string{"zk"}, Dialer: srv.DialContext}, seam.Seams{})
		require.NoError(t, err)
		c.slept = func() time.Duration { // the clock is read right before a request is submitted
			if f := asked.Swap(nil); f != nil {
				(*f)()
			}
			return 0
		}
		c.dialled(t)
		defer c.Close()
		s := c.session
		s.mustCreate(t, "/a", 0)
		w := s.watch(t, "/a")
		synctest.Wait()
		next := make(chan *Watch, 1)
		read := func() {
			go func() { next <- s.watch(t, "/a") }()
			for range 1000 {
				runtime.Gosched()
			}
		}
		asked.Store(&read)
		w.Remove()
		later := <-next
		synctest.Wait() // the server has done all that it was asked
		require.NoError(t, srv.Set("/a", nil))
		synctest.Wait()
		require.Equal(t, zk.EventNodeDataChanged, later.Event())
		require.Equal(t, 1, srv.Counts().ByOp["removeWatches"])
		require.Zero(t, watchesOn(t, s))
	})
}

// Servers before 3.5 answer "unimplemented" and end the connection.
func TestAServerThatCannotRemoveWatchesIsAskedOnce(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		refused := srv.Inject(func(r zktest.Request) bool { return r.Op == "removeWatches" }, zktest.Fail(-6))
		for _, path := range []string{"/a", "/b"} {
			s.mustCreate(t, path, 0)
			w := s.watch(t, path)
			w.Remove()
			synctest.Wait()
		}
		require.Equal(t, 1, refused.Hits())
		require.Equal(t, StateActive, s.State())
	})
}
