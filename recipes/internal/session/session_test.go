package session

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/clock"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

// go-zookeeper/zk#159: the raw handle recovers with a new session, without notice.
func TestExpiryEndsTheHandle(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		s.mustCreate(t, "/e", zk.FlagEphemeral)
		srv.Expire(s.ID())
		<-s.Done()
		require.ErrorIs(t, s.Err(), ErrLost)
		require.ErrorIs(t, s.Err(), errExpired)
		require.Equal(t, StateLost, s.State())
		_, err := s.Create(t.Context(), "/after", nil, 0, openACL)
		require.ErrorIs(t, err, errExpired)
		require.Equal(t, OutcomeNotSent, OutcomeOf(err))
		time.Sleep(time.Hour)
		require.Empty(t, srv.Sessions(), "no session that nobody asked for")

		next := c.mustSession(t)
		require.NotEqual(t, s.ID(), next.ID())
		next.mustCreate(t, "/again", 0)
	})
}

// ClickHouse/ClickHouse#116690: the server hands out another session and no event says so.
func TestSwappedSessionIDIsALoss(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		srv.SwapSessionID(s.ID())
		srv.Disconnect(s.ID())
		<-s.Done()
		require.ErrorIs(t, s.Err(), errExpired)
		require.ErrorContains(t, s.Err(), "silently handed out")
		_, _, err := s.Get(t.Context(), "/")
		require.ErrorIs(t, err, ErrLost)
	})
}

// With raw go-zookeeper, four creates issued under session A came back without an error, owned by session B.
func TestRequestsOfALostSessionNeverRunInTheNext(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		cutOff(srv)
		errs := make(chan error, 20)
		for range 20 {
			go func() {
				_, err := s.Create(t.Context(), "/late", nil, zk.FlagEphemeralSequential, openACL)
				errs <- err
			}()
		}
		time.Sleep(5 * time.Second)
		srv.Expire(s.ID())
		srv.RefuseDials(false)
		for range 20 {
			require.ErrorIs(t, <-errs, ErrLost)
		}
		c.mustSession(t)
		root, _ := srv.Get("/")
		require.Equal(t, []string{"zookeeper"}, root.Children)
	})
}

// gone waits until the server has removed a node, and returns that time.
func gone(srv *zktest.Server, path string) time.Time {
	for {
		if _, ok := srv.Get(path); !ok {
			return time.Now()
		}
		time.Sleep(time.Millisecond)
	}
}

// A holder learns of the loss before the server grants the lock to a rival, whichever direction of the network fails. Raw go-zookeeper
// tells the holder at the server's expiry, or never.
func TestLossPrecedesServerExpiry(t *testing.T) {
	for name, cut := range map[string]zktest.Direction{"both": zktest.Both, "to server": zktest.ToServer, "to client": zktest.ToClient} {
		for _, holding := range []bool{true, false} {
			for phase := range 6 {
				runInSession(t, name, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
					s.mustCreate(t, "/mine", zk.FlagEphemeral)
					within := s.Timeout()
					if holding {
						release, err := s.hold(nil, "/mine")
						require.NoError(t, err)
						defer release()
						within /= 2
					}
					time.Sleep(time.Minute + time.Duration(phase)*700*time.Millisecond)
					srv.Partition(s.ID(), cut)
					began := time.Now()
					<-s.Done()
					lost := time.Now()
					require.LessOrEqual(t, lost.Sub(began), within)
					if cut != zktest.ToClient { // otherwise our pings go on arriving, and the server keeps the session
						require.Greater(t, gone(srv, "/mine").Sub(lost), time.Second)
					}
					require.ErrorIs(t, s.Err(), ErrLost)
					srv.Heal(0)
				})
			}
		}
	}
}

// In a loss of one direction, events still arrive. Every byte that comes in extends go-zookeeper's deadline.
func TestEventsDoNotKeepADeafConnectionAlive(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		for _, p := range []string{"/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"} {
			require.NoError(t, srv.Create(p, nil))
			defer s.watch(t, p).Stop()
		}
		srv.Partition(s.ID(), zktest.ToServer)
		began, changed := time.Now(), s.Changed()
		go func() {
			for i := range 10 {
				time.Sleep(time.Second)
				_ = srv.Set("/"+string(rune('0'+i)), []byte("x"))
			}
		}()
		<-changed
		require.Equal(t, StateSuspect, s.State())
		require.LessOrEqual(t, time.Since(began), 8*time.Second, "2T/3")
		srv.Heal(0)
		time.Sleep(time.Minute)
	})
}

// A session leaves a server that commits nothing for another one, in time to keep the lease.
func TestUncommittingServerIsLeft(t *testing.T) {
	inSessionWith(t, func(c *Config) { c.Servers = []string{"zk1", "zk2"} }, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.holding(t, "/mine")
		time.Sleep(time.Minute)
		stall := srv.Inject(zktest.On("multi"), zktest.DropRequest)
		srv.Inject(zktest.On("connect"), zktest.Delay(0))
		go func() {
			<-s.Changed()
			stall.Remove() // the other server is well
		}()
		time.Sleep(time.Minute)
		require.Equal(t, StateActive, s.State())
		require.Equal(t, 2, s.Stats().Connections)
	})
}

// A heartbeat that failed with its connection waited for its turn on the next one, while the lease ran out.
func TestHeartbeatIsSentAtOnceOnANewConnection(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.holding(t, "/mine")
		time.Sleep(time.Minute)
		beats := make(chan time.Time, 100)
		srv.Inject(func(r zktest.Request) bool {
			if r.Op != "multi" {
				return false
			}
			beats <- time.Now()
			return len(beats) == 1
		}, zktest.DropReply)
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, len(beats), 2)
		require.Equal(t, <-beats, <-beats)
	})
}

func TestHeldSessionReturnsFromSuspectByCommitOnly(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.holding(t, "/mine")
		heartbeat := srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeThrottled))
		srv.Disconnect(s.ID())
		<-heartbeat.Hit()
		synctest.Wait()
		require.Equal(t, 2, s.Stats().Connections, "connected again")
		s.mustRead(t, "/mine")
		require.Equal(t, StateSuspect, s.State(), "an answered read proves nothing")
		changed := s.Changed()
		heartbeat.Remove()
		require.NoError(t, s.Confirm(t.Context(), "/mine"))
		<-changed
		require.Equal(t, StateActive, s.State())
	})
}

func TestStaleProofHoldsNothing(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/mine", zk.FlagEphemeral)
		time.Sleep(6 * time.Second)
		_, err := s.hold(nil, "/mine")
		require.ErrorIs(t, err, errStaleProof)
		require.Equal(t, StateActive, s.State())
		require.NoError(t, s.Confirm(t.Context(), "/mine"))
		release, err := s.hold(nil, "/mine")
		require.NoError(t, err)
		release()
		release()
		time.Sleep(time.Hour)
		require.Equal(t, StateActive, s.State(), "nothing is held: no heartbeat is due")
	})
}

// A lease counts from the send of the write: the reply's arrival overstates it by the round trip.
func TestLeaseCountsFromSend(t *testing.T) {
	inSlowSession(t, 500*time.Millisecond, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/mine", zk.FlagEphemeral)
		require.Equal(t, 5*time.Second, time.Until(s.Deadline()))
	})
}

// On a session whose pings did not get out, the last touch may be older than the write suggests.
func TestProofCountsTheTouchBeforeTheWrite(t *testing.T) {
	now := time.Now()
	const T = 16 * time.Second
	fresh := proof{sent: clock.Stamp{At: now}, touched: clock.Stamp{At: now.Add(-7 * time.Second)}}
	require.Equal(t, now.Add(8*time.Second), fresh.deadline(T, 0))
	old := proof{sent: clock.Stamp{At: now}, touched: clock.Stamp{At: now.Add(-9 * time.Second)}}
	require.Equal(t, now.Add(6*time.Second), old.deadline(T, 0))
}

func TestHeartbeatNeedsRead(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		_, err := s.Create(t.Context(), "/blind", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermWrite))
		require.NoError(t, err)
		err = s.Confirm(t.Context(), "/blind")
		require.ErrorIs(t, err, ErrCannotHeartbeat)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "READ on /blind")
	})
}

// A session sends one heartbeat, whatever it holds, and the heartbeat wakes no watcher.
func TestHeartbeatIsOneQuietWrite(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		for range 50 {
			p := s.mustCreate(t, "/n-", zk.FlagEphemeralSequential)
			defer s.watch(t, p).Stop()
			release, err := s.hold(nil, p)
			require.NoError(t, err)
			defer release()
		}
		srv.ResetCounts()
		time.Sleep(61 * time.Second)
		require.Equal(t, map[string]int{"multi": 30}, srv.Counts().ByOp, "each T/6 = 2 s")
		require.Zero(t, srv.Counts().WatchEvents)
	})
}

func TestTimeoutIsWhatTheServerGranted(t *testing.T) {
	inSessionWith(t, func(c *Config) { c.SessionTimeout = time.Hour }, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		require.Equal(t, 40*time.Second, s.Timeout())
	})
}

// State is level-triggered: an observer that looks late sees the truth.
func TestReconnectsKeepTheSessionAndALateObserverSeesItsLoss(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/mine", zk.FlagEphemeral)
		id, changed := s.ID(), s.Changed()
		for range 100 {
			srv.Disconnect(id)
			time.Sleep(3 * time.Second)
			require.Equal(t, StateActive, s.State())
		}
		require.Equal(t, id, s.ID())
		_, ok := srv.Get("/mine")
		require.True(t, ok)
		srv.Expire(id)
		time.Sleep(time.Minute)
		<-changed
		require.Equal(t, StateLost, s.State())
	})
}

func TestLoseIsFinal(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		first := errors.New("first")
		s.lose(first)
		s.lose(errors.New("second"))
		require.ErrorIs(t, s.Err(), first)
		_, err := s.hold(nil, "/x")
		require.ErrorIs(t, err, ErrLost)
		require.False(t, s.Deadline().After(time.Now()))
		<-s.joined
		require.Empty(t, srv.Sessions(), "a session lost while connected is closed on the server too")
	})
}

// A program was told of the loss by a call, or by Done, while its leases still said that they were held.
func TestWhatIsHeldHearsOfTheLossBeforeAnybodyElse(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		told, waiting := make(chan struct{}), make(chan struct{})
		tell := sync.OnceFunc(func() { close(told) })
		defer tell()
		_, err := s.Hold(t.Context(), func(error) {
			close(waiting)
			<-told
		}, s.mustCreate(t, "/held", zk.FlagEphemeral))
		require.NoError(t, err)
		hold := srv.Inject(zktest.On("getData"), zktest.LoseReply)
		errs := make(chan error, 4)
		call := func(f func() error) { go func() { errs <- f() }() }
		get := func() error { _, _, err := s.Get(t.Context(), "/held"); return err }
		call(get) // under way
		<-hold.Hit()
		go s.lose(errors.New("lost"))
		<-waiting
		call(get)
		call(func() error { b := s.Batch(); b.List("/"); return b.Offer(t.Context()) })
		call(func() error { _, err := s.Hold(t.Context(), nil, "/held"); return err })
		synctest.Wait()
		require.Empty(t, errs)
		select {
		case <-s.Done():
			require.Fail(t, "Done says so first")
		default:
		}
		tell()
		for range cap(errs) {
			require.ErrorIs(t, <-errs, ErrLost)
		}
	})
}

// The link lived on and sent pings, so the servers kept for ever what was held.
func TestAPanicInALossCallbackEndsTheLinkAllTheSame(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mustHold(t, func(error) { panic("of a callback") }, s.mustCreate(t, "/held", zk.FlagEphemeral))
		w := s.watch(t, "/held")
		require.PanicsWithValue(t, "of a callback", func() { s.lose(errors.New("lost")) })
		defer func() { // otherwise Close waits for it
			if l := s.present(); l != nil {
				l.fail(errOver)
			}
		}()
		time.Sleep(time.Minute)
		require.Empty(t, srv.Sessions(), "it has expired")
		require.Equal(t, zk.EventNotWatching, w.Event())
		<-s.joined
	})
}

func TestSessionWaitObeysContext(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		srv.RefuseDials(true)
		srv.Expire(s.ID())
		<-s.Done()
		ctx := hostile.Within(t, 20*time.Second)
		began := time.Now()
		_, err := c.Session(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrUnreachable)
		require.Equal(t, 20*time.Second, time.Since(began))
		require.ErrorContains(t, err, "no session within", "and says what the last try found")

		go func() {
			time.Sleep(30 * time.Second)
			srv.RefuseDials(false)
		}()
		next := c.mustSession(t) // servers that come up late
		require.Equal(t, StateActive, next.State())
	})
}

func TestWaitersShareOneDial(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		srv.Expire(s.ID())
		<-s.Done()
		got := make(chan *Session, 100)
		for range 100 {
			go func() { got <- c.mustSession(t) }()
		}
		one := <-got
		for range 99 {
			require.Same(t, one, <-got)
		}
		require.Len(t, srv.Sessions(), 1)
	})
}

// A lease may end before its session is in doubt, if little was sent before the write that proves the lease. See proof.
func TestStateFindsALeaseThatEndedBeforeADoubt(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		s.mustHold(t, nil, s.mustCreate(t, "/a", zk.FlagEphemeral))
		require.Equal(t, StateActive, s.State())
		s.mu.Lock()
		s.proof.touched.At = time.Now().Add(-s.timeout)
		s.mu.Unlock()
		require.Equal(t, StateLost, s.State(), "before any timer has run")
	})
}

// CloseLost did not take the refusal for an answer, and a third of the timeout went by.
func TestALostSessionWhoseCloseIsRefusedIsReportedAtOnce(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, lost *Session) {
		lost.mustCreate(t, "/mine", zk.FlagEphemeral)
		lost.mustHold(t, nil, "/mine")
		lost.lose(errors.New("enough"))
		s := c.mustSession(t)
		rule := srv.Inject(zktest.On("closeSession"), zktest.Fail(zktest.Code(wire.CodeSASLRequired)))
		began := time.Now()
		require.ErrorContains(t, s.CloseLost(t.Context(), lost), "not closed: recipes: authentication refused")
		require.Zero(t, time.Since(began))
		rule.Remove()
		require.NoError(t, s.CloseLost(t.Context(), lost))
		require.Len(t, srv.Sessions(), 1)
	})
}

// A lost session stays lost, and a new one becomes active only by a server's grant.
func TestASessionMakesOnlyLegalMoves(t *testing.T) {
	all := map[string][]string{}
	for from := StateActive; from <= stateAsked; from++ {
		for to := StateActive; to <= stateAsked; to++ {
			s := &Session{client: &Client{}, state: from, changed: make(chan struct{})}
			if s.move(to); s.state != from {
				all[from.String()] = append(all[from.String()], s.state.String())
			}
		}
	}
	require.Equal(t, map[string][]string{
		"asked":   {"active", "lost"},
		"active":  {"suspect", "lost"},
		"suspect": {"active", "lost"},
	}, all)
}

// A dead link stays dead. A link that retires (its session goes to another server) cannot change to leaving (its session is over).
func TestALinkMakesOnlyLegalMoves(t *testing.T) {
	all := map[linkState][]linkState{}
	for from := linkOpen; from <= linkDead; from++ {
		for to := linkOpen; to <= linkDead; to++ {
			if l := (&link{state: from}); l.move(to) {
				require.Equal(t, to, l.state)
				all[from] = append(all[from], to)
			} else {
				require.Equal(t, from, l.state)
			}
		}
	}
	require.Equal(t, map[linkState][]linkState{
		linkOpen:     {linkRetiring, linkLeaving, linkDead},
		linkRetiring: {linkDead},
		linkLeaving:  {linkDead},
	}, all)
}

// sleeper returns a client that holds /mine, and the time that its machine has slept so far.
func sleeper(t *testing.T, dial func(*Config), servers ...string) (*Client, *atomic.Int64) {
	var asleep atomic.Int64
	cfg := Config{Servers: servers, SessionTimeout: 12 * time.Second}
	dial(&cfg)
	c, err := newClient(cfg, seam.Seams{})
	require.NoError(t, err)
	c.slept = func() time.Duration { return time.Duration(asleep.Load()) }
	c.dialled(t)
	c.session.mustCreate(t, "/mine", zk.FlagEphemeral)
	_, err = c.session.hold(nil, "/mine")
	require.NoError(t, err)
	synctest.Wait() // until the look that hold asked for is over: later it would find what a sleep has made due
	return c, &asleep
}

// golang/go#24595: the monotonic clock and the timers stand still in a suspended machine.
func TestSuspendedMachineLosesItsLeaseAtTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, plain(zktest.Start(t)), "zk")
		s := c.session
		asleep.Add(int64(2 * time.Second))
		require.Equal(t, StateActive, s.State(), "a nap")
		require.Equal(t, 4*time.Second, time.Until(s.Deadline()), "6 s from the create's send, less the nap")
		asleep.Add(int64(4 * time.Second))
		require.Equal(t, StateLost, s.State())
		require.NoError(t, c.Close())
	})
}

// After a sleep, the connection and the lease end at the same moment. A failure must then name the end of the session: a caller that
// hears of a closed connection would wait for the next one.
func TestRequestThatFailsInAMachineJustResumedSaysThatTheSessionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, plain(zktest.Start(t)), "zk")
		asleep.Add(int64(time.Minute))
		require.NoError(t, c.session.Err(), "no timer has run")
		require.ErrorIs(t, c.session.newOpError(&op{name: "setACL", path: "/mine"}, OutcomeUnknown, zk.ErrConnectionClosed), ErrLost)
		require.NoError(t, c.Close())
	})
}

// lateHanger is a connection whose Close closes at once, but returns only when over is closed. So its end is reported late.
type lateHanger struct {
	net.Conn
	once sync.Once
	over <-chan struct{}
}

func (l *lateHanger) Close() error {
	err := l.Conn.Close()
	l.once.Do(func() { <-l.over })
	return err
}

// plain dials srv.
func plain(srv *zktest.Server) func(*Config) {
	return func(cfg *Config) { cfg.Dialer = srv.DialContext }
}

// hangingUpLate makes a lateHanger of the first connection.
func hangingUpLate(over <-chan struct{}) func(int, net.Conn) net.Conn {
	return func(n int, c net.Conn) net.Conn {
		if n > 1 {
			return c
		}
		return &lateHanger{Conn: c, over: over}
	}
}

// A connection that commits nothing had ended, but that was not reported yet. A look at this time ended the next connection, which was
// being made. So every server could be passed over, and the pause after that cost a lease.
func TestALookAfterAConnectionEndedDoesNotEndTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		over, dials := make(chan struct{}), 0
		c, asleep := sleeper(t, through(server, func(n int, c net.Conn) net.Conn {
			dials = n
			return hangingUpLate(over)(n, c)
		}), "zk1", "zk2")
		time.Sleep(time.Minute + time.Second) // between two heartbeats
		answered := server.Inject(zktest.On("connect"), zktest.Delay(10*time.Millisecond))
		defer answered.Remove()
		asleep.Add(int64(time.Until(c.session.Deadline()) - 200*time.Millisecond))
		go c.session.State()
		synctest.Wait()
		require.Equal(t, 2, dials, "the next connection is being made")
		require.NotEqual(t, StateLost, c.session.State())
		close(over)
		time.Sleep(time.Second)
		require.NoError(t, c.session.Err())
		require.Equal(t, StateActive, c.session.State())
		require.Equal(t, 2, dials)
		require.NoError(t, c.Close())
	})
}

// A program runs again after a third of its session timeout. At one look it finds a heartbeat due, and its server behind with commits.
// The session dropped the connection, and counted the heartbeat as under way for ever. It made no other heartbeat, on any connection.
func TestAProgramStoppedForMoreThanAThirdOfItsSessionTimeoutKeepsItsLease(t *testing.T) {
	for step := range 16 { // from a third to a half
		synctest.Test(t, func(t *testing.T) {
			c, asleep := sleeper(t, plain(zktest.Start(t)), "zk1", "zk2")
			time.Sleep(time.Minute)
			rest := time.Until(c.session.Deadline())
			asleep.Add(int64(rest - 2*time.Second*time.Duration(16-step)/16))
			require.NotEqual(t, StateLost, c.session.State())
			time.Sleep(time.Minute)
			require.NoError(t, c.session.Err(), "step %d", step)
			require.NoError(t, c.Close())
		})
	}
}

// redated returns t with the wall clock put forward by d, as time.Now returns it after a change of the date.
func redated(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // bit 63: there is a monotonic reading; then 33 bits of seconds
	*wall += uint64(d/time.Second) << 30
	return t
}

func TestTheDateChangesNoDeadline(t *testing.T) { // failure matrix, row 30: the wall clock an hour forward or back
	const T = 12 * time.Second
	before := time.Now()
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		set := redated(before, d)
		require.Equal(t, d, set.Round(0).Sub(before.Round(0)), "the test must change the date")
		p := proof{sent: clock.Stamp{At: before}, touched: clock.Stamp{At: before}}
		later := redated(before.Add(T/2-time.Millisecond), d)
		require.True(t, later.Before(p.deadline(T, 0)), "ended early by a date")
		later = redated(before.Add(T/2), d)
		require.False(t, later.Before(p.deadline(T, 0)), "prolonged by a date")
		require.Equal(t, time.Millisecond, later.Sub(redated(before.Add(T/2-time.Millisecond), -d)))
	}
}

func TestAClockASixteenthSlowEndsTheLeaseInTime(t *testing.T) { // failure matrix, row 32: clock rates
	const T = 16 * time.Second
	now := time.Now()
	for idle := time.Duration(0); idle <= T/3+T/8; idle += T / 96 {
		p := proof{sent: clock.Stamp{At: now}, touched: clock.Stamp{At: now.Add(-idle)}}
		// The server counts from touched; our clock shows 15 s when 16 have passed.
		believed := p.deadline(T, 0).Sub(p.touched.At)
		require.LessOrEqual(t, believed*16/15, T+time.Nanosecond, "touched %v before the write", idle)
	}
}

// Client.Session looked at the clock under the client's mutex. If it found a loss, the calls made for that loss waited for the mutex.
func TestWhatHearsOfALossFoundBySessionMayUseTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, plain(zktest.Start(t)), "zk")
		var heard *Session
		c.session.mustHold(t, func(error) { heard = c.Newest() }, "/mine")
		lost := c.session
		synctest.Wait()
		asleep.Add(int64(time.Minute))
		s := c.mustSession(t)
		require.NotSame(t, lost, s)
		require.Same(t, lost, heard)
		require.NoError(t, c.Close())
	})
}

func TestNoPathsAreHeldOrDeletedWithoutAPanic(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		nothing := s.Batch()
		nothing.Delete()
		require.ErrorContains(t, nothing.Do(t.Context()), "at least one operation")
		require.NoError(t, s.Batch().Do(t.Context()))
		time.Sleep(time.Minute) // the proof is stale
		release := s.mustHold(t, nil)
		require.Zero(t, s.Stats().Holds)
		release()
		release()
		s.lose(errExpired)
		b := s.Batch()
		b.Delete("/x")
		require.ErrorIs(t, b.Offer(t.Context()), ErrLost)
		_, err := s.Hold(t.Context(), nil)
		require.ErrorIs(t, err, ErrLost)
	})
}
