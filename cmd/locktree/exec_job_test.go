//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// signalsOutside starts what the runtime has for signals outside of fake time, where its channels have to be.
func signalsOutside() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	signal.Stop(c)
}

// A job that takes no time on a machine whose clock is behind was run again there.
func TestExecKeepsTheLockAtLeastThatLong(t *testing.T) {
	signalsOutside()
	deleted := func(t *testing.T, b *bench, c *recipes.Client, node string) {
		require.NoError(t, b.server.Delete(node))
	}
	for name, c := range map[string]struct {
		happens func(t *testing.T, b *bench, other *recipes.Client, node string) // after five minutes
		command string
		code    int
		keeps   time.Duration
		says    string
	}{
		"to the end":              {nil, "true", exit.OK, 10 * time.Minute, "locktree: the command has ended: keeping /t/ledger for another 10m0s\nlocktree: released /t/ledger after 10m0s\n"},
		"of a command that fails": {nil, "false", 1, 10 * time.Minute, "locktree: released /t/ledger after 10m0s\n"},
		"until it is lost":        {deleted, "true", exit.OK, 5 * time.Minute, "locktree: /t/ledger was lost 5m0s before -at-least was over: another machine may run the command again\n"},
		"until it is asked back": {func(t *testing.T, _ *bench, other *recipes.Client, node string) {
			require.NoError(t, other.Revoke(t.Context(), node))
		}, "true", exit.OK, 5 * time.Minute, "locktree: another program asks for /t/ledger back: it gets it 5m0s before -at-least is over\nlocktree: released /t/ledger after 5m0s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
				b.run(exit.OK, "apply", "-auto-approve")
				other, err := b.dial(t.Context(), recipes.Config{Servers: []string{b.addr()}, SessionTimeout: 40 * time.Second})
				require.NoError(t, err)
				defer other.Close()
				began := time.Now()
				at := time.AfterFunc(5*time.Minute, func() {
					in, err := inspect.Lock(t.Context(), other, execLock)
					require.NoError(t, err)
					require.Len(t, in.Holders, 1)
					b.run(7, "exec", "-try", "-E=7", execLock, "--", "false")
					if c.happens != nil {
						c.happens(t, b, other, in.Holders[0].Path)
					}
				})
				defer at.Stop()
				_, stderr := b.run(c.code, "exec", "-at-least=10m", execLock, "--", c.command)
				require.Contains(t, stderr, "locktree: granted /t/ledger: token ")
				require.Contains(t, stderr, c.says)
				require.InDelta(t, c.keeps.Seconds(), time.Since(began).Seconds(), 1)
			})
		})
	}
}

// It is over at a signal that ends programs: whoever stops the job does not want to wait.
func TestExecThatIsInterruptedKeepsTheLockNoLonger(t *testing.T) {
	signalsOutside()
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, stderr := b.runUnder(ctx, exit.OK, "exec", "-at-least=10m", execLock, "--", "true")
		require.Equal(t, time.Minute, time.Since(began).Round(time.Second))
		require.Contains(t, stderr, "locktree: released /t/ledger after 1m0s\n")
	})
}

// Connecting counts: with the time of the connection on top, a job that must have begun within its time has not.
func TestTheTimeoutOfExecIncludesConnecting(t *testing.T) {
	signalsOutside()
	inFakeTime(t, oneLedger+"election \"chief\" {\n  acl = acl.open\n}\n", func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		other, err := b.dial(t.Context(), recipes.Config{Servers: []string{b.addr()}, SessionTimeout: 40 * time.Second})
		require.NoError(t, err)
		defer other.Close()
		lease, err := other.Mutex(execLock).Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		_, stderr := b.run(exit.Conflict, "exec", "-timeout=2s", execLock, "/t/chief", "--", "true")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Contains(t, stderr, "locktree: waiting for /t/ledger + /t/chief\n")
		require.Contains(t, stderr, "\n/t/ledger is held by ")
		require.NoError(t, lease.Unlock(t.Context()))

		b.server.RefuseDials(true)
		began = time.Now()
		_, stderr = b.run(exit.Own, "exec", "-timeout=2s", execLock, "--", "true")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.NotContains(t, stderr, "not acquired")
	})
}
