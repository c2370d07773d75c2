package zktest

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/jute"
)

func keeperBubble(t *testing.T, f func(t *testing.T, s *Server), features ...KeeperFeature) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(WithKeeper(features...))
		defer s.Close()
		f(t, s)
	})
}

// meet shakes hands with a Keeper and returns what it answers.
func (c *rawConn) meet(id int64, timeout time.Duration) (version int32, granted time.Duration, session int64) {
	c.t.Helper()
	e := newEncoder()
	e.Int32(0)
	e.Int64(1 << 40) // it does not mind having seen less
	e.Int32(int32(timeout / time.Millisecond))
	e.Int64(id)
	e.Buffer([]byte("sixteen bytes ..")) // nor what the password is
	e.Bool(false)
	_, err := c.Write(e.frame())
	require.NoError(c.t, err)
	frame := c.frame()
	require.Len(c.t, frame, 36, "there is no read-only byte")
	d := newDecoder(frame)
	version, granted, session = d.Int32(), time.Duration(d.Int32())*time.Millisecond, d.Int64()
	require.Equal(c.t, make([]byte, 16), d.Buffer())
	require.False(c.t, d.Bad)
	return version, granted, session
}

// keeperDial connects and shakes hands, and asks for 12 s.
func keeperDial(t *testing.T, v *view) *rawConn {
	t.Helper()
	c := rawDial(t, v)
	_, _, id := c.meet(0, 12*time.Second)
	require.Positive(t, id)
	return c
}

func (c *rawConn) node(op int32, path string, flags int32, acl ...ACL) {
	c.send(op, func(e *encoder) {
		e.string(path)
		e.Buffer(nil)
		e.acls(acl)
		e.Int32(flags)
	})
}

func (c *rawConn) expect(t *testing.T, want Code) {
	t.Helper()
	_, code := c.header()
	require.Equal(t, want, code)
}

// ended requires that the server has ended the connection and said nothing.
func (c *rawConn) ended(t *testing.T) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestAKeeperGivesWhoeverComesANewSession(t *testing.T) {
	keeperBubble(t, func(t *testing.T, s *Server) {
		for asked, want := range map[time.Duration]time.Duration{
			0: 30 * time.Second, time.Second: 10 * time.Second, 12 * time.Second: 12 * time.Second, time.Hour: 100 * time.Second,
		} {
			c := rawDial(t, s.views[0])
			version, granted, _ := c.meet(0, asked)
			require.Zero(t, version)
			require.Equal(t, want, granted)
			c.Close()
		}
		c := rawDial(t, s.views[0])
		_, _, first := c.meet(0, 12*time.Second)
		c.node(jute.OpCreate, "/e", 1, openACL...)
		c.expect(t, jute.CodeOK)
		born := time.Now()
		c.Close()
		c = rawDial(t, s.views[0])
		_, _, second := c.meet(first, 12*time.Second)
		require.Greater(t, second, first)
		// The first session lives on, though nobody can have it back.
		time.Sleep(time.Until(born.Add(12 * time.Second)))
		n, there := s.Get("/e")
		require.True(t, there)
		require.Equal(t, first, n.Stat.EphemeralOwner)
		time.Sleep(501 * time.Millisecond)
		_, there = s.Get("/e")
		require.False(t, there)
		c.Close()
	})
}

func TestAKeeperWithoutALeaderGivesNoSession(t *testing.T) {
	keeperBubble(t, func(t *testing.T, s *Server) {
		s.SetReadOnly(true)
		c := rawDial(t, s.views[0])
		version, granted, id := c.meet(0, 12*time.Second)
		require.EqualValues(t, 42, version)
		require.Positive(t, granted)
		require.EqualValues(t, -1, id)
		c.ended(t)
		require.Empty(t, s.Sessions())
	})
}

func TestAKeeperEndsTheConnectionOverAnOperationThatItDoesNotKnow(t *testing.T) {
	create2 := func(c *rawConn) { c.node(jute.OpCreate2, "/a", 0, openACL...) }
	unwatch := func(c *rawConn) {
		c.send(jute.OpRemoveWatches, func(e *encoder) {
			e.string("/a")
			e.Int32(2)
		})
	}
	for name, ask := range map[string]func(c *rawConn){
		"create2": create2, "removeWatches": unwatch,
		"whoAmI": func(c *rawConn) { c.send(jute.OpWhoAmI, func(*encoder) {}) },
		"createContainer": func(c *rawConn) {
			c.node(jute.OpCreateContainer, "/a", 4, openACL...)
		},
		"a multi with a create2": func(c *rawConn) {
			c.send(jute.OpMulti, func(e *encoder) {
				e.multiHeader(jute.OpCreate2, false, -1)
				e.string("/a")
				e.Buffer(nil)
				e.acls(openACL)
				e.Int32(0)
				e.multiHeader(-1, true, -1)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			keeperBubble(t, func(t *testing.T, s *Server) {
				c := keeperDial(t, s.views[0])
				ask(c)
				c.ended(t)
				_, there := s.Get("/a")
				require.False(t, there)
				require.Len(t, s.Sessions(), 1, "the session ends later, by its timeout")
			})
		})
	}
	keeperBubble(t, func(t *testing.T, s *Server) {
		c := keeperDial(t, s.views[0])
		create2(c)
		c.expect(t, jute.CodeOK)
		unwatch(c)
		c.expect(t, jute.CodeNoWatcher)
		c.Close()
		n, _ := s.Get("/keeper/feature_flags")
		require.Equal(t, []byte{1, 1 << 7}, n.Data, "flags 7 and 8, from the left")
	}, KeeperPersistentWatches, KeeperCreateWithStats)
}

func TestAKeeperStoresNoSchemesButThree(t *testing.T) {
	digest := ACL{Perms: permAll, Scheme: "digest", ID: DigestID("a:b")}
	world := ACL{Perms: permRead, Scheme: "world", ID: "anyone"}
	keeperBubble(t, func(t *testing.T, s *Server) {
		c := keeperDial(t, s.views[0])
		c.send(jute.OpAuth, func(e *encoder) {
			e.Int32(0)
			e.string("digest")
			e.Buffer([]byte("a:b"))
		})
		c.expect(t, jute.CodeOK)
		for path, of := range map[string]struct{ sent, stored []ACL }{
			"/dropped": {[]ACL{{permAll, "ip", "10.0.0.1"}, world, {permAll, "sasl", "x"}, digest}, []ACL{world, digest}},
			"/auth":    {[]ACL{{permRead, "auth", ""}}, []ACL{{permRead, "digest", digest.ID}}},
			"/open":    {openACL, openACL},
		} {
			c.node(jute.OpCreate, path, 0, of.sent...)
			c.expect(t, jute.CodeOK)
			n, _ := s.Get(path)
			require.Equal(t, of.stored, n.ACL, path)
		}
		for _, none := range [][]ACL{{{permAll, "x509", "CN=a"}}, {{permAll, "digest", "no colon"}}} {
			c.node(jute.OpCreate, "/none", 0, none...)
			c.expect(t, jute.CodeInvalidACL)
		}
		c.node(jute.OpCreate, "/keeper/a", 0, openACL...)
		c.expect(t, jute.CodeBadArguments)
		c.Close()
	})
}

func TestReadsDoNotKeepAKeepersSessionAlive(t *testing.T) {
	for op, lives := range map[int32]bool{jute.OpExists: false, jute.OpPing: true, jute.OpSync: true} {
		keeperBubble(t, func(t *testing.T, s *Server) {
			c := keeperDial(t, s.views[0])
			for range 5 {
				time.Sleep(4 * time.Second)
				if len(s.Sessions()) > 0 {
					c.send(op, func(e *encoder) {
						if op != jute.OpPing {
							e.string("/")
							e.Bool(false)
						}
					})
					c.header()
				}
			}
			require.Equal(t, lives, len(s.Sessions()) == 1, opName(op))
			c.Close()
		})
	}
}

func TestTheEndOfAKeepersSessionIsTheEndOfItsConnection(t *testing.T) {
	keeperBubble(t, func(t *testing.T, s *Server) {
		c := keeperDial(t, s.views[0])
		c.send(jute.OpCloseSession, func(*encoder) {})
		c.ended(t)
		require.Empty(t, s.Sessions())
	})
}

// Who is connected to a Keeper that stops loses what it has, and is not told.
func TestAStoppingKeeperEndsItsSessionsAndTellsItsClientsNothing(t *testing.T) {
	keeperBubble(t, func(t *testing.T, s *Server) {
		r := s.Replica()
		holder, rival := keeperDial(t, r.v), keeperDial(t, s.views[0])
		holder.node(jute.OpCreate, "/e", 1, openACL...)
		holder.expect(t, jute.CodeOK)
		for _, c := range []*rawConn{holder, rival} {
			c.watch("/e")
			c.expect(t, jute.CodeOK)
		}
		waiting := keeperDial(t, r.v)
		held := s.Inject(Once(On("create")), Hold)
		waiting.create("/late")
		<-held.Hit()
		synctest.Wait() // it may still be on its way
		r.Stop()
		require.Len(t, s.Sessions(), 1, "the rival's")
		xid, _ := rival.header()
		require.Equal(t, jute.XidEvent, xid)
		waiting.expect(t, jute.CodeSessionExpired)
		waiting.ended(t)
		_, err := r.v.dial("tcp", "raw", 0)
		require.Error(t, err)
		read := make(chan error, 1)
		go func() {
			_, err := holder.Read(make([]byte, 1))
			read <- err
		}()
		time.Sleep(time.Hour)
		require.Empty(t, read, "the connection stays, and no event comes")
		holder.create("/a")
		require.ErrorIs(t, <-read, io.EOF)
		held.Release()
		synctest.Wait()
		for _, path := range []string{"/a", "/late"} {
			_, there := s.Get(path)
			require.False(t, there, path)
		}
		r.Restart()
		keeperDial(t, r.v).Close()
		rival.Close()
	})
	keeperBubble(t, func(t *testing.T, s *Server) {
		c := keeperDial(t, s.views[0])
		s.Stop()
		s.Restart()
		c.ended(t)
	})
}

func TestAKeepersWordsReadLikeAKeepers(t *testing.T) {
	keeperBubble(t, func(t *testing.T, s *Server) {
		for word, want := range map[string]string{
			"ruok": "imok", "srvr": "ClickHouse Keeper version: v", "mntr": "zk_version\tv24", "conf": "dead_session_check_period_ms=500",
			"apiv": "2", "ftfl": "create_with_stats\t0", "wchp": "",
		} {
			c := rawDial(t, s.views[0])
			_, err := c.Write([]byte(word))
			require.NoError(t, err)
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			if want == "" {
				require.Empty(t, got, word)
			}
			require.Contains(t, string(got), want, word)
		}
	})
}
