package session

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/zktest"
)

// slowLoss tells the session of its first lost link late, as a goroutine that is not scheduled does.
type slowLoss struct {
	*Session
	first *sync.Once
}

func (s slowLoss) lost(l *link) {
	s.first.Do(func() { time.Sleep(3 * time.Second) })
	s.Session.lost(l)
}

func TestLinkGrantedBeforeTheLossOfTheLastOneWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, err := newClient(Config{Servers: []string{"zk"}, Dialer: srv.DialContext, SessionTimeout: 12 * time.Second}, seam.Seams{})
		require.NoError(t, err)
		s := newSession(c)
		s.guard.on = slowLoss{s, &sync.Once{}}
		require.NoError(t, s.start())
		require.NoError(t, c.admit(t.Context(), s))
		c.session = s
		synctest.Wait() // until go-zookeeper has read its session's number, which it needs to come back to it
		s.guard.kill(errSilent)
		_, err = s.Exists(t.Context(), "/")
		require.NoError(t, err)
		require.Equal(t, StateActive, s.State())
		require.Equal(t, 2, s.Stats().Connections)
		require.NoError(t, c.Close())
	})
}

// An idle client remembered every ping it ever sent.
func TestIdleClientRemembersNoMoreThanItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		_, s := open(t, srv)
		time.Sleep(24 * time.Hour)
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
