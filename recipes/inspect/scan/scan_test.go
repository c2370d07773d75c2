package scan_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// onlySrvr allows the word that Apache ZooKeeper allows by default.
func onlySrvr() zktest.Option { return zktest.WithWords("srvr") }

// wire counts the bytes on connections.
type wire struct {
	net.Conn
	n *atomic.Int64
}

func (w wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.n.Add(int64(n))
	return n, err
}

func (w wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.n.Add(int64(n))
	return n, err
}

// connected returns a client with its own dialer.
func connected(t testing.TB, readOnly bool, dial func(context.Context, string, string) (net.Conn, error), servers ...string) *session.Client {
	t.Helper()
	c, err := session.Dial(t.Context(), session.Config{Servers: servers, ReadOnly: readOnly, SessionTimeout: 30 * time.Second, Dialer: dial})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// looker returns a scanner, and how many bytes it has moved.
func looker(t testing.TB, srv *zktest.Server, opts scan.Options) (*scan.Scanner, *atomic.Int64) {
	t.Helper()
	var moved atomic.Int64
	return scan.New(connected(t, true, func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := srv.DialContext(ctx, network, addr)
		return wire{c, &moved}, err
	}, "zk:2181"), opts), &moved
}

// ledger runs f in fake time, on a server with a declared mutex.
func ledger(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		harness.Declare(t, srv, "/locks/ledger", kind.Mutex.New())
		f(t, srv)
	})
}

func program(t testing.TB, srv *zktest.Server, id string) *recipes.Client {
	t.Helper()
	c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk:2181"}, ID: id, Dialer: srv.DialContext, SessionTimeout: 30 * time.Second, ConnectTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func lookOnce(t testing.TB, s *scan.Scanner) *scan.Snapshot {
	t.Helper()
	snap, err := s.Scan(t.Context())
	require.NoError(t, err)
	return snap
}

// lines are a snapshot's text, without what differs from run to run.
func lines(snap *scan.Snapshot) (out []string) {
	for _, in := range snap.Locks {
		text := fmt.Sprintf("%s %s", in.Path, in.Kind)
		for _, role := range []struct {
			name string
			cs   []inspect.Contender
		}{{"holds", in.Holders}, {"waits", in.Waiters}} {
			for _, c := range role.cs {
				text += fmt.Sprintf(" %s:%s", role.name, c.ID)
				if c.Permits > 0 {
					text += fmt.Sprintf("x%d", c.Permits)
				}
			}
		}
		for _, junk := range in.Junk {
			text += " foreign:" + kind.BaseName(junk)
		}
		out = append(out, text)
	}
	for _, u := range snap.Unread {
		out = append(out, u.Path+" "+u.Err.Error())
	}
	return out
}

// everyWords runs a test on a server that allows the words, and on one that does not. Both show the same.
func everyWords(t *testing.T, f func(t *testing.T, dump bool, srv *zktest.Server)) {
	t.Run("allowed", func(t *testing.T) { f(t, true, zktest.Start(t)) })
	t.Run("forbidden", func(t *testing.T) { f(t, false, zktest.Start(t, onlySrvr())) })
}

func TestASnapshotShowsDeclaredLocksAndAnybodysBelowAPrefix(t *testing.T) {
	everyWords(t, func(t *testing.T, dump bool, srv *zktest.Server) {
		harness.Declare(t, srv, "/locks/ledger", kind.Mutex.New())
		sem := kind.Semaphore.New().(*kind.SemaphoreParams)
		sem.Permits = 3
		harness.Declare(t, srv, "/locks/workers", sem)
		harness.Declare(t, srv, "/locks/idle", kind.Election.New())
		for _, path := range []string{"/java/orders", "/java/pool/leases", "/java/pool/locks", "/python/jobs", "/other/thing/below", "/zookeeper/x", "/s/.locktree/locks/shop"} {
			require.NoError(t, srv.Create(path, nil))
		}
		harness.Foreign(t, srv, "/java/orders/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", "/java/pool/leases/_c_0d7a6d0a-33cf-4d20-9f69-6c4ce6ff9a30-lease-",
			"/python/jobs/7f6d0c8f5b0b4a1b8a4c2c1d0e9f8a7b__lock__", "/s/.locktree/locks/shop/_c_11111111-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
		a, b := program(t, srv, "a"), program(t, srv, "b")
		l, err := a.Mutex("/locks/ledger").Lock(t.Context())
		require.NoError(t, err)
		_, err = b.Semaphore("/locks/workers").Acquire(t.Context(), 2)
		require.NoError(t, err)
		require.NoError(t, srv.Create("/locks/ledger/stray", nil))

		s, _ := looker(t, srv, scan.Options{Declared: []string{"/locks/ledger", "/locks/missing"}, Prefix: "/"})
		snap := lookOnce(t, s)
		want := []string{
			"/java/orders mutex holds:10.1.2.3", "/java/pool semaphore holds:10.1.2.3x1", "/locks/idle election",
			"/locks/ledger mutex holds:a foreign:stray", "/locks/workers semaphore holds:bx1 holds:bx1", "/python/jobs mutex holds:10.1.2.3",
			"/locks/missing zk: node does not exist",
		}
		require.Equal(t, want, lines(snap))
		require.Equal(t, dump, snap.Dump)
		require.NotZero(t, snap.Zxid)
		require.Equal(t, []string{"standalone"}, []string{snap.Servers[0].Mode})
		again := lookOnce(t, s)
		require.Equal(t, want, lines(again))
		for i := range again.Locks {
			require.Same(t, snap.Locks[i], again.Locks[i], "what has not changed is the same value")
		}

		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, srv.Delete("/python"))
		require.NoError(t, srv.Delete("/locks/ledger/stray"))
		require.NoError(t, srv.Create("/locks/missing", nil))
		require.Equal(t, []string{"/java/orders mutex holds:10.1.2.3", "/java/pool semaphore holds:10.1.2.3x1", "/locks/idle election",
			"/locks/ledger mutex", "/locks/workers semaphore holds:bx1 holds:bx1", "/locks/missing kind: not a locktree node"}, lines(lookOnce(t, s)))
		require.NoError(t, srv.Set("/locks/missing", []byte(`{"locktree":"damaged"}`)))
		damaged := lookOnce(t, s).Unread
		require.Len(t, damaged, 1)
		require.False(t, damaged[0].Missing())
	})
}

// A client can create a node with a path of nearly a megabyte, which would appear in every report and on every page.
func TestNodesWithVeryLongPathsAreNotLookedAt(t *testing.T) {
	everyWords(t, func(t *testing.T, _ bool, srv *zktest.Server) {
		long, longest := "/java/"+strings.Repeat("x", 4000), "/java/"+strings.Repeat("x", 100_000)
		for _, path := range []string{long, longest} {
			require.NoError(t, srv.Create(path, nil))
			harness.Foreign(t, srv, path+"/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
		}
		s, _ := looker(t, srv, scan.Options{Prefix: "/"})
		for range 5 {
			snap := lookOnce(t, s)
			require.Equal(t, []string{long + " mutex holds:10.1.2.3"}, lines(snap))
			require.True(t, snap.Cut)
		}
		require.NoError(t, srv.Delete(longest))
		for n := 0; lookOnce(t, s).Cut; n++ {
			require.Less(t, n, 5, "it has gone")
		}
	})
}

// status said "There are no locks" for a kazoo semaphore with two holders, although import recognised it.
func TestASemaphoreOfKazoosIsSeenWithItsHoldersAndWaiters(t *testing.T) {
	everyWords(t, func(t *testing.T, dump bool, srv *zktest.Server) {
		require.NoError(t, srv.Create("/py/jobs", []byte("2")))
		require.NoError(t, srv.Create("/py/jobs-__lock__", nil))
		require.NoError(t, srv.Create("/py/other", []byte("2")))
		require.NoError(t, srv.Create("/py/other/0123456789abcdef0123456789abcdef", nil))
		require.NoError(t, srv.Create("/py/other/readme", nil))
		ephemeral := func(s *session.Session, path, id string, flags int32) {
			_, err := s.Create(t.Context(), path, []byte(id), zk.FlagEphemeral|flags, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		a, b := harness.Foreign(t, srv), harness.Foreign(t, srv)
		ephemeral(a, "/py/jobs/ffc0a3a1c2f14e0e9a50d0c1f0b6a111", "worker-1", 0)
		ephemeral(b, "/py/jobs/11c0a3a1c2f14e0e9a50d0c1f0b6a111", "worker-2", 0)
		s, _ := looker(t, srv, scan.Options{Prefix: "/py"})
		require.Equal(t, []string{"/py/jobs semaphore holds:worker-1x1 holds:worker-2x1"}, lines(lookOnce(t, s)))
		ephemeral(b, "/py/jobs-__lock__/22c0a3a1c2f14e0e9a50d0c1f0b6a111__lock__", "worker-3", zk.FlagSequence)
		waits := []string{"/py/jobs semaphore holds:worker-1x1 holds:worker-2x1 waits:worker-3x1"}
		snap := lookOnce(t, s)
		require.Equal(t, waits, lines(snap))
		require.Equal(t, []string{"kazoo", "kazoo"}, []string{snap.Locks[0].Holders[0].Writer, snap.Locks[0].Waiters[0].Writer})
		require.Len(t, snap.Waits.All, 1)
		require.Same(t, snap.Locks[0], lookOnce(t, s).Locks[0], "nothing has changed")

		c := harness.ReadOnly(t, srv)
		look, err := scan.Look(t.Context(), c, scan.Options{Prefix: "/py/jobs"})
		require.NoError(t, err)
		require.Equal(t, waits, lines(look))
		in, err := inspect.Lock(t.Context(), c, "/py/jobs")
		require.NoError(t, err)
		require.Equal(t, waits, lines(&scan.Snapshot{Locks: []*inspect.Report{in}}))

		require.NoError(t, srv.Delete("/py/jobs/ffc0a3a1c2f14e0e9a50d0c1f0b6a111"))
		require.Equal(t, []string{"/py/jobs semaphore holds:worker-2x1 waits:worker-3x1"}, lines(lookOnce(t, s)))
		require.NoError(t, srv.Delete("/py/jobs/11c0a3a1c2f14e0e9a50d0c1f0b6a111"))
		lookOnce(t, s)
		require.Equal(t, []string{"/py/jobs-__lock__ mutex holds:worker-3"}, lines(lookOnce(t, s)))
	})
}

func TestAScannerTakesNoConnectionThatCouldWrite(t *testing.T) {
	srv := zktest.Start(t)
	_, err := scan.New(program(t, srv, "a"), scan.Options{}).Scan(t.Context())
	require.ErrorContains(t, err, "refuses writes")
	s, _ := looker(t, srv, scan.Options{})
	srv.ResetCounts()
	lookOnce(t, s)
	require.Zero(t, srv.Counts().Total)
}

// A refresh asks three words if they are allowed, and otherwise the stats of the locks in use. The rest of its bound on reads goes to the
// nodes whose turn it is.
func TestWhatARefreshAsksFor(t *testing.T) {
	everyWords(t, func(t *testing.T, dump bool, srv *zktest.Server) {
		var paths []string
		for i := range 200 {
			paths = append(paths, fmt.Sprintf("/locks/l%03d", i))
			harness.Declare(t, srv, paths[i], kind.Mutex.New())
		}
		b := program(t, srv, "b")
		// These contenders have no lock in a program: soon after its grant, such a lock asks for its node, and would be counted.
		holder, err := program(t, srv, "a").Session(t.Context())
		require.NoError(t, err)
		for _, path := range paths[:10] {
			_, err := holder.Create(t.Context(), path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		s, moved := looker(t, srv, scan.Options{Declared: paths, Reads: 25})
		first := lookOnce(t, s)
		require.Zero(t, first.Pending)
		require.Len(t, first.Locks, 200)

		asked := func() (zktest.Counts, *scan.Snapshot) {
			srv.ResetCounts()
			moved.Store(0)
			snap := lookOnce(t, s)
			return srv.Counts(), snap
		}
		before, snap := asked()
		require.LessOrEqual(t, snap.Cost.Reads, 25+10, "the bound, and the contenders of the last lock whose turn came")
		require.Equal(t, before.Total, snap.Cost.Reads, "all of it is counted")
		words := 1 // srvr
		if dump {
			words = 3 // cons and dump, too
		}
		require.Equal(t, words, snap.Cost.Words)
		require.Less(t, moved.Load(), int64(2000+10*100+snap.Cost.Reads*200), "bytes: of the words, their lines for ten contenders, and of the reads")
		// A change is read: the directory, and the new contenders in it.
		_, err = b.Mutex(paths[150]).Lock(t.Context())
		require.NoError(t, err)
		for range 10 { // if the words are forbidden, idle locks take turns
			if snap = lookOnce(t, s); snap.Locks[150].Busy() {
				break
			}
			require.False(t, dump, "at once")
		}
		require.Equal(t, "/locks/l150 mutex holds:b", lines(snap)[150])
	})
}

func TestASnapshotSaysWhereHoldersConnectFromAndWhenTheirSessionsEnd(t *testing.T) {
	ledger(t, func(t *testing.T, srv *zktest.Server) {
		cable := &harness.Cutter{Next: srv.DialContext}
		c := connected(t, false, cable.Dial, "zk:2181")
		away, err := c.Session(t.Context())
		require.NoError(t, err)
		_, err = away.Create(t.Context(), "/locks/ledger/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		s, _ := looker(t, srv, scan.Options{Declared: []string{"/locks/ledger"}})
		snap := lookOnce(t, s)
		x, holder := snap.Sessions[away.ID()], snap.Locks[0].Holders[0]
		require.Equal(t, away.ID(), holder.Session)
		require.NotEmpty(t, x.Address)
		require.Equal(t, []any{30 * time.Second, 1, len(holder.Path), false}, []any{x.Timeout, x.Nodes, x.Bytes, x.Away})
		require.False(t, x.Expires.IsZero())
		require.Equal(t, 2, snap.Servers[0].Connections-1, "two sessions, and the connection that asks")
		cable.SetRefuse(true)
		srv.Disconnect(away.ID())
		time.Sleep(12 * time.Second)
		x = lookOnce(t, s).Sessions[away.ID()]
		require.True(t, x.Away)
		require.Positive(t, x.Silent)
		require.WithinRange(t, x.Expires, time.Now(), time.Now().Add(22*time.Second))
		time.Sleep(25 * time.Second)
		snap = lookOnce(t, s)
		require.Nil(t, snap.Sessions[away.ID()])
		require.False(t, snap.Locks[0].Busy())
	})
}

// The page said "Context deadline exceeded", or named the failed request, when an ensemble refused its certificate.
func TestALookThatFailsSaysWhyThereIsNoConnection(t *testing.T) {
	ledger(t, func(t *testing.T, srv *zktest.Server) {
		cable := &harness.Cutter{Next: srv.DialContext}
		c := connected(t, true, cable.Dial, "zk:2181")
		live, err := c.Session(t.Context())
		require.NoError(t, err)
		s := scan.New(c, scan.Options{Declared: []string{"/locks/ledger"}})
		lookOnce(t, s)
		cable.SetRefuse(true)
		srv.Disconnect(live.ID())
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 16*time.Second)
			_, err := s.Scan(ctx)
			cancel()
			require.ErrorContains(t, err, "zk:2181: "+io.ErrClosedPipe.Error())
		}
		cable.SetRefuse(false)
		require.Len(t, lookOnce(t, s).Locks, 1, "it goes on when the servers are back")
	})
}

// A look at 5,000 locks over a slow line took longer than a page waited, and was called an outage for ever. A look lasts as long as the
// servers answer, says how far it is, and ends when they are silent.
func TestALookIsBoundedByTheServersSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(500*time.Millisecond))
		var paths []string
		for i := range 1500 {
			paths = append(paths, fmt.Sprintf("/locks/l%04d", i))
			harness.Declare(t, srv, paths[i], kind.Mutex.New())
		}
		harness.Foreign(t, srv, paths[7]+"/lock-")
		s, _ := looker(t, srv, scan.Options{Declared: paths, Silence: 16 * time.Second})
		far, over, told := []int{}, make(chan struct{}), make(chan struct{})
		go func() {
			defer close(told)
			for {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Second):
					if p := s.Progress(); p.Of > 0 { // the words are done
						require.Equal(t, 1500, p.Of)
						far = append(far, p.Looked)
					}
				}
			}
		}()
		snap := lookOnce(t, s)
		close(over)
		<-told
		require.Greater(t, snap.Took, 20*time.Second)
		require.Greater(t, len(far), 3)
		require.True(t, slices.IsSorted(far))
		require.Less(t, far[0], far[len(far)-1])

		srv.Inject(func(r zktest.Request) bool { return r.Op == "exists" }, zktest.Hold)
		start := time.Now()
		_, err := s.Scan(t.Context())
		require.ErrorContains(t, err, "the servers have sent nothing for 16s")
		require.InDelta(t, 20, time.Since(start).Seconds(), 4)
	})
}

// A lock that was deleted and created again counts from zero: the same name is another contender.
func TestAContenderOfTheSameNameIsAnotherOne(t *testing.T) {
	everyWords(t, func(t *testing.T, _ bool, srv *zktest.Server) {
		require.NoError(t, srv.Create("/jobs", nil))
		harness.Foreign(t, srv, "/jobs/lock-")
		s, _ := looker(t, srv, scan.Options{Prefix: "/jobs", Reads: 2})
		first := lookOnce(t, s).Locks[0].Holders[0]
		require.NoError(t, srv.Delete("/jobs"))
		require.NoError(t, srv.Create("/jobs", nil))
		second := harness.Foreign(t, srv, "/jobs/lock-")
		now := lookOnce(t, s).Locks[0].Holders[0]
		require.Equal(t, first.Path, now.Path)
		require.Equal(t, second.ID(), now.Session)
		require.Greater(t, now.Token, first.Token)
	})
}

func TestALongQueueIsReadOnceAndItsGraphIsBounded(t *testing.T) {
	srv := zktest.Start(t)
	harness.Declare(t, srv, "/locks/ledger", kind.Mutex.New())
	harness.Declare(t, srv, "/locks/stock", kind.Mutex.New())
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf("/locks/ledger/_c_%08x-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", i))
	}
	first := harness.Foreign(t, srv, all[:1]...)
	harness.Foreign(t, srv, all[1:999]...)
	last := harness.Foreign(t, srv, "/locks/stock/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", all[999])
	_, err := first.Create(t.Context(), "/locks/stock/_c_d1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	s, _ := looker(t, srv, scan.Options{Declared: []string{"/locks/ledger", "/locks/stock"}, Reads: 10})
	snap := lookOnce(t, s)
	require.Len(t, snap.Locks[0].Waiters, 999)
	require.LessOrEqual(t, len(snap.Waits.All), 202)
	require.Len(t, snap.Waits.Deadlocks, 1, "the last of the queue holds what the first one waits for")
	require.NoError(t, last.Delete(t.Context(), snap.Locks[0].Waiters[998].Path, -1))
	snap = lookOnce(t, s)
	require.Len(t, snap.Locks[0].Waiters, 998)
	require.LessOrEqual(t, snap.Cost.Reads, 1+10+1000, "the directory, and what comes in turn")
	require.Empty(t, snap.Waits.Deadlocks)
}

func TestUnreadableNodesAreNamed(t *testing.T) {
	everyWords(t, func(t *testing.T, _ bool, srv *zktest.Server) {
		harness.Declare(t, srv, "/locks/ledger", kind.Mutex.New())
		owner := harness.Foreign(t, srv)
		_, err := owner.Create(t.Context(), "/locks/secret", nil, 0, zk.DigestACL(zk.PermAll, "u", "p"))
		require.NoError(t, err)
		s, _ := looker(t, srv, scan.Options{Prefix: "/locks"})
		for range 2 {
			snap := lookOnce(t, s)
			require.Len(t, snap.Locks, 1)
			require.Len(t, snap.Unread, 1)
			require.Equal(t, "/locks/secret", snap.Unread[0].Path)
			require.True(t, errors.Is(snap.Unread[0].Err, zk.ErrNoAuth))
		}
	})
}

func TestAnswersThatAreNoneAreNotBelieved(t *testing.T) {
	srv := zktest.Start(t)
	harness.Declare(t, srv, "/locks/ledger", kind.Mutex.New())
	answer := ""
	c := connected(t, true, func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := srv.DialContext(ctx, network, addr)
		return &liar{Conn: c, answer: &answer}, err
	}, "zk:2181")
	for _, answer = range []string{"", "dump", "SessionTracker dump:\n", "SessionTracker dump:\nephemeral nodes dump:\n0x1:\n\t/locks/ledger/lock-0000000001\n",
		strings.Repeat("a", 2<<20), "This ZooKeeper instance is not currently serving requests\n", "0x\n\t\n:\nMode: \x1b[2J\nephemeral nodes dump:\n\t/\n\t\nConnections dump:\n\tip: sessionId: 0xzz\n"} {
		s := scan.New(c, scan.Options{Declared: []string{"/locks/ledger"}})
		snap := lookOnce(t, s)
		require.Equal(t, []string{"/locks/ledger mutex"}, lines(snap))
		require.NotContains(t, snap.Servers[0].Mode, "\x1b")
	}
}

// liar answers words with another text.
type liar struct {
	net.Conn
	answer *string
	rest   io.Reader
}

func (l *liar) Write(b []byte) (int, error) {
	if len(b) == 4 {
		l.rest = strings.NewReader(*l.answer)
		return 4, nil
	}
	return l.Conn.Write(b)
}

func (l *liar) Read(b []byte) (int, error) {
	if l.rest != nil {
		return l.rest.Read(b)
	}
	return l.Conn.Read(b)
}
