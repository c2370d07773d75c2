package session

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// The goroutine that finds a connection dead may come to say so when there is the next one.
func TestLinkGrantedBeforeTheLossOfTheLastOneWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		told, dials := make(chan struct{}), 0
		_, s := open(t, srv, func(c *Config) {
			c.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := srv.DialContext(ctx, network, address)
				if dials++; dials > 1 {
					return conn, err
				}
				return &lateHanger{Conn: conn, over: told}, err
			}
		})
		time.Sleep(settled) // the next server is tried without a pause
		go s.present().fail(errSilent)
		synctest.Wait()
		_, err := s.Exists(t.Context(), "/")
		require.NoError(t, err)
		close(told)
		synctest.Wait()
		require.Equal(t, StateActive, s.State())
		require.Equal(t, 2, s.Stats().Connections)
	})
}

// An idle client remembered every ping it ever sent.
func TestAnIdleSessionLivesAndRemembersNoMoreThanItNeeds(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		time.Sleep(24 * time.Hour)
		require.Equal(t, StateActive, s.State())
		require.Equal(t, 1, s.Stats().Connections)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.link.mu.Lock()
		defer s.link.mu.Unlock()
		require.Less(t, len(s.link.touches), 64)
	})
}

func TestTheBufferOfAWriteIsUsedAgainUnlessItIsLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := open(t, zktest.Start(t))
		kept := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.link.mu.Lock()
			defer s.link.mu.Unlock()
			return cap(s.link.outbox)
		}
		_, err := s.Exists(t.Context(), "/")
		require.NoError(t, err)
		require.NotZero(t, kept())
		_, err = s.Create(t.Context(), "/large", make([]byte, 100<<10), 0, openACL)
		require.NoError(t, err)
		require.LessOrEqual(t, kept(), 64<<10)
	})
}
