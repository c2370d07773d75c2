//go:build linux

package kerberos_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/kdc"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// patience limits every wait for an event that must happen. Its passing proves nothing.
const patience = 3 * time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not yet: %s", what)
	}
}

// asLogin returns a client that logs in, and its cable.
func asLogin(t *testing.T, server *realzk.Server, login recipes.SASL) (*recipes.Client, *harness.Cutter) {
	t.Helper()
	cable := &harness.Cutter{Next: (&net.Dialer{}).DialContext}
	cfg := recipes.Config{Servers: []string{server.Addr}, SASL: login, Dialer: cable.Dial, SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute}
	c, err := recipes.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, cable
}

// loggedIn starts a KDC, a server, and a client of user ledger.
func loggedIn(t *testing.T, tickets kdc.Options, opts realzk.Options) (*kdc.KDC, *realzk.Server, *kerberos.Login, *recipes.Client, *harness.Cutter) {
	t.Helper()
	k := kdc.Start(t, tickets)
	server := kerberized(t, k, opts)
	login, err := kerberos.New(enrol(k, "ledger"))
	require.NoError(t, err)
	c, cable := asLogin(t, server, login)
	return k, server, login, c, cable
}

// logins counts the logins that a server has accepted. Its log is long, and read often: one line at a time.
func logins(server *realzk.Server, who string) (n int) {
	log, err := os.Open(filepath.Join(server.Dir, "zookeeper.log"))
	if err != nil {
		return 0
	}
	defer log.Close()
	for lines := bufio.NewReader(log); err == nil || errors.Is(err, bufio.ErrBufferFull); {
		var line []byte
		line, err = lines.ReadSlice('\n')
		n += bytes.Count(line, []byte("authenticationID="+who))
	}
	return n
}

// A server checks a ticket only when a connection is made. So the test forces a connection for each of twenty tickets, while locks are
// taken and one is held all the time.
func TestTwentyRenewedTicketsUnderLoad(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	// Sessions of 40 s, because a ticket of 3 s can end during a login on a busy machine.
	_, server, login, c, cable := loggedIn(t, kdc.Options{Lifetime: 3 * time.Second}, realzk.Options{})
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	for _, path := range []string{"/held", "/busy"} {
		_, err = s.Create(t.Context(), path, nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ledger@" + kdc.Realm}})
		require.NoError(t, err)
	}
	held, err := c.Mutex("/held", recipes.WithParams(&kind.MutexParams{})).Lock(t.Context())
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var cycles, lost atomic.Int64
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex("/busy", recipes.WithParams(&kind.MutexParams{})).Lock(ctx)
				if err != nil {
					continue // the connection was cut; only granted locks matter
				}
				if l.Context().Err() != nil {
					lost.Add(1)
				}
				_ = l.Unlock(context.WithoutCancel(ctx))
				cycles.Add(1)
			}
		})
	}
	presented := map[time.Time]bool{}
	last := login.Ends()[0]
	presented[last] = true
	for len(presented) <= 20 {
		eventually(t, "a new ticket", func() bool { return login.Ends()[0].After(last) })
		before, done := logins(server, "ledger@"), cycles.Load()
		last = login.Ends()[0]
		cable.HangUp()
		eventually(t, "a login with it", func() bool { return logins(server, "ledger@") > before })
		eventually(t, "work", func() bool { return cycles.Load() > done })
		presented[last] = true
	}
	require.NoError(t, context.Cause(held.Context()), "no lease was lost")
	require.Zero(t, lost.Load())
	stop()
	workers.Wait()
	require.NoError(t, held.Unlock(t.Context()))
	now, err := c.Session(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.ID(), now.ID(), "in one session")
	t.Logf("%d tickets, %d logins, %d locks", len(presented), logins(server, "ledger@"), cycles.Load())
}

// Tickets are renewed early, so a connection that breaks while no KDC answers finds one.
func TestAConnectionThatBreaksWhileNoKDCAnswersFindsATicket(t *testing.T) {
	effort.Proof(t, effort.Unraced) // it waits for a ticket to be renewed, and reads a long log meanwhile
	t.Parallel()
	k, server, login, c, cable := loggedIn(t, kdc.Options{Lifetime: 20 * time.Second}, realzk.Options{}) // its session outlasts the ticket
	first := login.Ends()[0]
	eventually(t, "a new ticket", func() bool { return login.Ends()[0].After(first) })
	k.Stop()
	cable.HangUp()
	eventually(t, "a login", func() bool { return logins(server, "ledger@") > 1 })
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a session that was lost is not replaced without a KDC
	defer cancel()
	s, err := c.Session(ctx)
	require.NoError(t, err)
	_, err = s.Exists(ctx, "/")
	require.NoError(t, err)
}

// A key that is replaced at the KDC and in the file serves from the next connection on. Until then, the old ticket serves.
func TestAKeytabIsReadAgain(t *testing.T) {
	t.Parallel()
	k, server, login, c, cable := loggedIn(t, kdc.Options{}, realzk.Options{})
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	before := login.Ends()[0]
	k.Rekey("ledger")
	cable.HangUp()
	eventually(t, "a login with the ticket at hand", func() bool { return logins(server, "ledger@") > 1 })
	time.Sleep(1100 * time.Millisecond) // the times in tickets are whole seconds
	k.Keytab("ledger.keytab", "ledger")
	old := logins(server, "ledger@")
	cable.HangUp()
	eventually(t, "a login with another", func() bool { return logins(server, "ledger@") > old })
	require.True(t, login.Ends()[0].After(before), "it was got with the new key")
	_, err = s.Exists(t.Context(), "/")
	require.NoError(t, err)
}

func TestACacheLogsInAndIsReadAgainAndRenewed(t *testing.T) {
	effort.Proof(t, effort.Unraced) // a loaded machine outlasts tickets of seconds
	t.Parallel()
	k := kdc.Start(t, kdc.Options{Lifetime: 4 * time.Second})
	server := kerberized(t, k, realzk.Options{TickTime: 500 * time.Millisecond})
	enrol(k, "ann")
	enrol(k, "bob")
	cache := k.Kinit("tickets", k.Dir+"/ann.keytab", "ann", "-r", "1h", "-l", "4s")
	login, err := kerberos.New(kerberos.Config{CCache: "FILE:" + cache, Krb5Conf: k.Conf, ServerPrincipal: "zookeeper/localhost"})
	require.NoError(t, err)
	require.Equal(t, "ann@"+kdc.Realm, login.Identity())
	c, cable := asLogin(t, server, login)
	first := login.Ends()[0]
	eventually(t, "tickets beyond those of kinit", func() bool { return login.Ends()[0].After(first.Add(4 * time.Second)) })
	cable.HangUp()
	eventually(t, "a login with one", func() bool { return logins(server, "ann@") > 1 })
	// After kinit for another principal, the next connection is that principal's.
	k.Kinit("tickets", k.Dir+"/bob.keytab", "bob")
	cable.HangUp()
	eventually(t, "a login of bob", func() bool { return logins(server, "bob@") > 0 })
	require.Equal(t, "bob@"+kdc.Realm, login.Identity())
	require.Contains(t, c.Identities(), kind.ACL{Scheme: "sasl", ID: "bob@" + kdc.Realm})
}
