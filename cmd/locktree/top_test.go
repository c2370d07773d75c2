package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

const oneLedger = "mutex \"ledger\" {\n  acl = acl.open\n}\n"

// An outage that outlasts the session ended top, after seconds in which it had said nothing.
func TestTopGoesOnAfterAnOutage(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exitOK, "apply", "-auto-approve")
		start := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			b.server.RefuseDials(true)
			b.server.Disconnect(0)
			time.Sleep(2 * time.Minute)
			b.server.RefuseDials(false)
		}()
		out, _ := b.run(exitOK, "top", "-n=20")
		frames := strings.Split(strings.TrimSuffix(out, "\n\n"), "\n\n")
		stale := regexp.MustCompile(`(?m)^stale since ` + start.Add(4*time.Second).UTC().Format(time.TimeOnly) + ` \((\S+)\): (.*)$`)
		ages, whys := map[string]bool{}, map[string]bool{}
		for _, f := range frames {
			require.Contains(t, f, "1 lock, ", "what was seen last stays")
			if m := stale.FindStringSubmatch(f); m != nil {
				ages[m[1]], whys[m[2]] = true, true
			} else {
				require.NotContains(t, f, "stale")
			}
		}
		for _, age := range []string{"4s", "10s", "30s", "1m0s", "1m50s"} {
			require.Contains(t, ages, age, "each two seconds something is said")
		}
		require.Contains(t, whys, "No answer yet.")
		require.Contains(t, whys, "No session within 10s; zk:2181: connection refused by zktest.")
		require.NotContains(t, frames[len(frames)-1], "stale", "and it is over")
	})
}

func TestTopThatEndsInAnOutageSaysSoByItsExitCode(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exitOK, "apply", "-auto-approve")
		for _, args := range [][]string{{"top", "-n=4"}, {"top"}} {
			ctx, interrupt := context.WithCancel(t.Context())
			go func() {
				time.Sleep(3 * time.Second)
				b.server.Freeze()
				time.Sleep(10 * time.Minute)
				interrupt()
			}()
			out, _ := b.runUnder(ctx, exitError, args...)
			require.Contains(t, out, "stale since ")
			b.server.Thaw()
		}
	})
}

// A session that ends while status reads is no reason to show nothing.
func TestStatusReadsAgainOnANewSession(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exitOK, "apply", "-auto-approve")
		for _, args := range [][]string{{"status"}, {"status", "/t"}} {
			lost := b.server.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == "/t/ledger" }), zktest.Hold)
			go func() {
				<-lost.Hit()
				for _, s := range b.server.Sessions() {
					b.server.Expire(s.ID)
				}
				lost.Release()
			}()
			out, _ := b.run(exitOK, args...)
			require.Contains(t, out, "1 lock, 0 held, 0 waiting.")
		}
	})
}

// A contender of another library's, on a connection that can be unplugged.
type outsider struct {
	*recipes.Session
	server *zktest.Server
	cut    atomic.Bool
}

func newOutsider(t *testing.T, srv *zktest.Server, node string) *outsider {
	x := &outsider{server: srv}
	c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk:2181"}, SessionTimeout: 40 * time.Second,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if x.cut.Load() {
				return nil, errors.New("unplugged")
			}
			return srv.DialContext(ctx, network, addr)
		}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	x.Session, err = c.Session(t.Context())
	require.NoError(t, err)
	_, err = x.Create(t.Context(), node, []byte("10.1.2.3"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	return x
}

func (x *outsider) unplug() {
	x.cut.Store(true)
	x.server.Disconnect(x.ID())
}

// With the words allowed and forbidden, what has not changed is asked for its stat at most: no directory is listed twice, and
// no declaration is read twice. A lock that changes hands costs the requests for this one lock.
func TestTopReadsAgainOnlyWhatHasChanged(t *testing.T) {
	const locks, holds = 300, 3
	for name, opts := range map[string][]zktest.Option{"allowed": nil, "forbidden": {zktest.WithWords("srvr")}} {
		stats := locks
		if opts != nil { // nothing else tells who stands where
			stats += holds
		}
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, manyLocks(locks), func(t *testing.T, b *bench) {
				b.run(exitOK, "apply", "-auto-approve")
				node := func(i int) string {
					return fmt.Sprintf("/t/pay/many-%d/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", i)
				}
				var last *outsider
				for i := range holds {
					last = newOutsider(t, b.server, node(i))
				}
				asked := func(refreshes int, meanwhile func()) map[string]int {
					b.server.ResetCounts()
					done := make(chan struct{})
					go func() {
						defer close(done)
						time.Sleep(3 * time.Second)
						meanwhile()
					}()
					out, _ := b.run(exitOK, "top", "-n="+strconv.Itoa(refreshes))
					<-done
					require.Equal(t, refreshes, strings.Count(out, fmt.Sprintf("  %d locks, ", locks)))
					require.Contains(t, out, "  300 locks, 3 in use, 3 held, 0 waiting\n")
					return b.server.Counts().ByOp
				}
				nothing := func() {}
				first, eleven := asked(1, nothing), asked(11, nothing)
				require.Equal(t, first["getChildren2"], eleven["getChildren2"], "no directory is listed again")
				require.Equal(t, 10*holds, eleven["getData"]-first["getData"], "the contenders have their turn, no declaration has")
				require.Equal(t, 10*stats, eleven["exists"]-first["exists"])

				changed := asked(11, func() {
					_, err := last.Create(t.Context(), node(100), nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
				})
				require.Equal(t, 1, changed["getChildren2"]-eleven["getChildren2"])
			}, opts...)
		})
	}
}

// It needs no configuration, and shows whose lock it is, also while its client is cut off.
func TestTopWithoutAConfiguration(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		require.NoError(t, b.server.Create("/java/orders", nil))
		require.NoError(t, b.server.Create("/python/jobs", nil))
		x := newOutsider(t, b.server, "/java/orders/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
		newOutsider(t, b.server, "/python/jobs/7f6d0c8f5b0b4a1b8a4c2c1d0e9f8a7b__lock__")
		b.dir = t.TempDir()
		go func() {
			time.Sleep(3 * time.Second)
			x.unplug()
		}()
		out, _ := b.run(exitOK, "top", "-servers="+b.addr(), "-n=30")
		require.Contains(t, out, "  2 locks, 2 in use, 2 held, 0 waiting\n")
		require.Regexp(t, `(?m)^/java/orders  10\.1\.2\.3  \d+s +connected +0 +- +mutex +\d+ +[^ ]+ +20\S+ \(\S+\)$`, out)
		require.Regexp(t, `(?m)^10\.1\.2\.3 holds /java/orders: since [^ ]+ \([^ ]+\), connected to no server that was asked; if it is gone, its place is free in about (3\d|\d)s \([0-9:]+ UTC\)$`, out)
		frames := strings.Split(strings.TrimSuffix(out, "\n\n"), "\n\n")
		require.NotContains(t, frames[len(frames)-1], "/java/orders", "its session has ended")

		out, _ = b.run(exitOK, "top", "-servers="+b.addr(), "-prefix=/python", "-n=1")
		require.Contains(t, out, "/python/jobs")
		require.NotContains(t, out, "/java")
		out, _ = b.run(exitError, "top", "-servers="+b.addr(), "-prefix=python")
		require.Empty(t, out)
	})
}
