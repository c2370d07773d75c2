package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

func TestFaultsDoToTheNodeAndTheCallerWhatTheySay(t *testing.T) {
	tests := []struct {
		name    string
		fault   zktest.Fault
		exists  bool
		err     string // of the create; empty for none
		lasting bool   // the connection survives
	}{
		{"DropReply", zktest.DropReply, true, "zk: connection closed", false},
		{"CutBefore", zktest.CutBefore, false, "zk: connection closed", false},
		{"CutAfter", zktest.CutAfter, true, "", false},
		{"CutAt a byte", zktest.CutAt(10), true, "zk: connection closed", false},
		{"Fail", zktest.Fail(zktest.CodeThrottled), false, "unknown error: -127", true},
		{"Delay", zktest.Delay(time.Second), true, "", true},
		{"DelayReader", zktest.DelayReader(time.Second), true, "", true},
		{"DelayReply", zktest.DelayReply(time.Second), true, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
				i := s.Inject(zktest.Once(zktest.On("create")), tt.fault)
				_, err := c.Create("/a", nil, 0, open)
				if tt.err == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, tt.err)
				}
				<-i.Hit()
				require.Equal(t, 1, i.Hits())
				require.Equal(t, tt.exists, exists(s, "/a"))
				synctest.Wait()
				require.Equal(t, tt.lasting, s.Sessions()[0].Connected)
			})
		})
	}
}

func TestADroppedRequestOrReplyLeavesTheRestOfTheConnectionAlone(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{"DropRequest": zktest.DropRequest, "LoseReply": zktest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
				i := s.Inject(zktest.On("create"), fault)
				done := c.creating("/a", 0)
				<-i.Hit()
				time.Sleep(time.Hour) // pings are answered, so no client gives up
				_, _, err := c.Get("/zookeeper")
				require.NoError(t, err)
				select {
				case err := <-done:
					t.Fatalf("answered: %v", err)
				default:
				}
				require.Equal(t, name == "LoseReply", exists(s, "/a"))
				s.Disconnect(c.SessionID())
				require.ErrorIs(t, <-done, zk.ErrConnectionClosed)
			})
		})
	}
}

func TestARequestHeldOnItsWayIsExecutedAfterTheConnectionIsCut(t *testing.T) { // the request was discarded if it was cut while it was on its way
	bubble(t, []zktest.Option{zktest.WithLatency(10 * time.Millisecond)}, func(t *testing.T, s *zktest.Server, c *client) {
		i := s.Inject(zktest.On("create"), zktest.HoldReader)
		done := c.creating("/late", zk.FlagEphemeral)
		<-i.Hit()
		s.Disconnect(c.SessionID())
		require.ErrorIs(t, <-done, zk.ErrConnectionClosed)
		c.await(zk.StateHasSession)
		require.False(t, c.there("/late"))
		i.Release()
		require.True(t, c.there("/late"))
	})
}

func TestAHeldReplyHidesAChangeThatHasHappened(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		i := s.Inject(zktest.On("create"), zktest.HoldReply)
		done := c.creating("/a", 0)
		<-i.Hit()
		synctest.Wait()
		require.True(t, exists(s, "/a"))
		require.Empty(t, done)
		i.Release()
		require.NoError(t, <-done)
	})
}

func TestLatencyIsExactInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(zktest.WithLatency(20 * time.Millisecond))
		defer s.Close()
		start := time.Now()
		c := dial(t, s, 10*time.Second)
		defer c.end()
		require.Equal(t, 80*time.Millisecond, time.Since(start), "a round trip to connect, one to greet")
		s.ResetCounts()
		start = time.Now()
		c.mustCreate("/a", 0)
		require.Equal(t, 40*time.Millisecond, time.Since(start))
		done := make(chan struct{})
		for range 2 {
			go func() {
				c.Get("/a")
				done <- struct{}{}
			}()
		}
		<-done
		<-done
		require.Equal(t, 80*time.Millisecond, time.Since(start), "two requests side by side take one round trip")
		require.Equal(t, 2, s.Counts().RoundTrips)
		require.Equal(t, 3, s.Counts().Total)
		require.Equal(t, map[string]int{"create": 1, "getData": 2}, s.SessionCounts(c.SessionID()).ByOp)
	})
}

func TestAPartitionDeliversWhatWasSentOnceHealed(t *testing.T) {
	for name, dir := range map[string]zktest.Direction{"to the server": zktest.ToServer, "to the client": zktest.ToClient} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
				s.Partition(c.SessionID(), dir)
				done := c.creating("/a", 0)
				synctest.Wait()
				require.Equal(t, dir == zktest.ToClient, exists(s, "/a"))
				require.Empty(t, done)
				s.Heal(c.SessionID())
				require.NoError(t, <-done)
			})
		})
	}
}

func TestAFrozenServerAnswersNobodyAndAFreezeLongerThanTheTimeoutEndsInExpiry(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
		s.Freeze()
		done := c.creating("/a", 0)
		time.Sleep(5 * time.Second)
		require.Empty(t, done)
		s.Thaw()
		require.NoError(t, <-done)
		s.Freeze()
		time.Sleep(time.Minute)
		require.Len(t, s.Sessions(), 1)
		s.Thaw()
		require.Empty(t, s.Sessions())
		c.await(zk.StateExpired)
	})
}
