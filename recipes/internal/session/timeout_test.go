package session

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// ownTimeout is a connection with an error of its own for a deadline that has passed, as those of user-space networks have.
type ownTimeout struct{ net.Conn }

type passed struct{}

func (passed) Error() string   { return "deadline exceeded" }
func (passed) Timeout() bool   { return true }
func (passed) Temporary() bool { return true }

func (c ownTimeout) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &net.OpError{Op: "read", Net: "tcp", Err: passed{}}
	}
	return n, err
}

func TestAConnectionWhoseTimeoutsAreErrorsOfItsOwnIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		_, s := open(t, srv, func(cfg *Config) {
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := srv.DialContext(ctx, network, address)
				return ownTimeout{conn}, err
			}
		})
		time.Sleep(10 * s.Timeout())
		require.Equal(t, 1, s.Stats().Connections)
	})
}
