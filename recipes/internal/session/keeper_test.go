package session

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// keeperGrant is how a ClickHouse Keeper answers a connect request.
func keeperGrant(version int32) []byte {
	return hostile.Frame(hostile.Cat(hostile.Be32(version), hostile.Be32(9000), hostile.Be64(7), hostile.Be32(16), make([]byte, 16))...)
}

func TestAKeeperIsRefusedAtTheHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		version int32
		change  func(*Config)
	}{
		"that grants a session":  {0, func(*Config) {}},
		"without a leader":       {42, func(*Config) {}},
		"before a login by SASL": {0, loggingIn(func() (Secret, error) { return "p", nil })},
		"before an identity":     {0, func(cfg *Config) { cfg.Auth = []Auth{{"digest", "ann:p"}} }},
		"with hours to spare":    {0, func(cfg *Config) { cfg.ConnectTimeout = time.Hour }},
	} {
		runInBubble(t, name, func(t *testing.T) {
			keeper := hostile.Saying(keeperGrant(c.version))
			p := &peers{scripts: map[string]hostile.Script{"k1:2181": keeper, "k2:2181": keeper, "k3:2181": keeper}}
			cfg := Config{Servers: []string{"k1", "k2", "k3"}, Dialer: p.dial}
			c.change(&cfg)
			began := time.Now()
			_, err := Dial(t.Context(), cfg)
			require.ErrorIs(t, err, wire.ErrKeeper)
			require.NotErrorIs(t, err, ErrUnreachable)
			require.False(t, Retryable(err))
			at, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "recipes: "), ":2181")
			require.Contains(t, cfg.Servers, at)
			require.EqualError(t, err, "recipes: "+at+":2181 is a ClickHouse Keeper, whose sessions end with their connection, "+
				"so a lock there cannot survive a reconnect; locktree needs Apache ZooKeeper: name its servers instead")
			require.Zero(t, time.Since(began))
			p.wg.Wait()
			require.Equal(t, 1, p.dials)
		})
	}
}

// A session that ZooKeeper has granted outlives an address that leads to a Keeper for a while.
func TestAGrantedSessionPassesAKeeperBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elsewhere atomic.Bool
		drop := make(chan struct{})
		p := &peers{scripts: map[string]hostile.Script{"zk:2181": func(c net.Conn) {
			if elsewhere.Load() {
				hostile.Saying(keeperGrant(0))(c)
				return
			}
			ended := make(chan struct{})
			defer close(ended)
			go func() {
				select {
				case <-drop:
					c.Close()
				case <-ended:
				}
			}()
			answering(7, 9000, nil)(c)
		}}}
		c, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: p.dial})
		require.NoError(t, err)
		s := c.mustSession(t)
		elsewhere.Store(true)
		drop <- struct{}{}
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, s.Err())
		require.Equal(t, StateSuspect, s.State())
		require.Contains(t, s.hosts.Report(), "zk:2181: a ClickHouse Keeper")
		elsewhere.Store(false)
		time.Sleep(2 * time.Second)
		require.Equal(t, StateActive, s.State())
		require.Equal(t, int64(7), s.ID())
		require.NoError(t, c.Close())
		p.wg.Wait()
	})
}
