package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/zktest"
)

// watched returns what status -watch prints until it is interrupted. As for every command that only reads, the interrupt is an error.
func (b *bench) watched(lasts time.Duration, args ...string) string {
	b.t.Helper()
	ctx, interrupt := context.WithCancel(b.t.Context())
	ended := time.AfterFunc(lasts, interrupt)
	defer ended.Stop()
	out, errs := b.runUnder(ctx, exit.Failed, append([]string{"status", "-watch"}, args...)...)
	require.Error(b.t, ctx.Err(), "it ended by itself: %s", errs)
	require.Contains(b.t, errs, "Interrupted")
	return out
}

// status -watch reports an outage that outlasts the session, with the last state that it saw, and reports its end.
func TestWatchGoesOnAfterAnOutage(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		start := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			b.server.RefuseDials(true)
			b.server.Disconnect(0)
			time.Sleep(2 * time.Minute)
			b.server.RefuseDials(false)
		}()
		frames := strings.SplitAfter(b.watched(3*time.Minute), "1 lock, 0 held, 0 waiting.\n")
		require.Len(t, frames, 4, "three, each with the lock, and nothing behind: %q", frames)
		require.NotContains(t, frames[0], "stale")
		require.Regexp(t, `(?m)^stale since `+start.Add(4*time.Second).UTC().Format(time.TimeOnly)+` \(\S+\): .*$`, frames[1])
		require.NotContains(t, frames[2], "stale", "and it is over")
	})
}

// A look at many locks over a slow line was reported as an outage, for ever.
func TestWatchTakesItsTimeOverASlowLine(t *testing.T) {
	inFakeTime(t, "mutex \"m\" {\n  for_each = toset([for i in range(1000): format(\"%04d\", i)])\n  acl      = acl.open\n}\n", func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		out := b.watched(5 * time.Minute)
		require.Contains(t, out, "1000 locks, 0 held, 0 waiting.")
		require.NotContains(t, out, "stale")
	}, zktest.WithLatency(400*time.Millisecond))
}

// There is a document for each change, and none for a look that finds no change.
func TestWatchPrintsOneDocumentForEachChange(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		go func() {
			time.Sleep(11 * time.Second)
			x := newOutsider(t, b.server, "/t/ledger/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
			time.Sleep(20 * time.Second)
			require.NoError(t, x.Delete(t.Context(), "/t/ledger/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-0000000000", -1))
		}()
		documents := json.NewDecoder(strings.NewReader(b.watched(time.Minute, "-json")))
		var holders []int
		for documents.More() {
			var doc struct {
				Ensembles []struct{ Locks []struct{ Holders []any } }
			}
			require.NoError(t, documents.Decode(&doc))
			holders = append(holders, len(doc.Ensembles[0].Locks[0].Holders))
		}
		require.Equal(t, []int{0, 1, 0}, holders)
	})
}

// Servers that cannot be reached at first are an error, as for status.
func TestWatchThatReachesNothingEnds(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.server.RefuseDials(true)
		out, errs := b.run(exit.Failed, "status", "-watch")
		require.Empty(t, out)
		require.Contains(t, errs, "Error: Cannot reach ZooKeeper")
		_, errs = b.run(exit.Failed, "status", "-watch", "-detailed-exitcode")
		require.Contains(t, errs, "-watch shows all locks, and has no end of its own.")
	})
}

// If the session ends while status reads, status still shows the locks.
func TestStatusReadsAgainOnANewSession(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		for _, args := range [][]string{{"status"}, {"status", "/t"}} {
			lost := b.server.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == "/t/ledger" }), zktest.Hold)
			go func() {
				<-lost.Hit()
				for _, s := range b.server.Sessions() {
					b.server.Expire(s.ID)
				}
				lost.Release()
			}()
			out, _ := b.run(exit.OK, args...)
			require.Contains(t, out, "1 lock, 0 held, 0 waiting.")
		}
	})
}

// outsider is a contender of another library, on a connection that can be unplugged.
type outsider struct {
	*direct.Session
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

// With and without ZooKeeper's four-letter words, at most the stat of an unchanged node is read. No directory is listed twice, and no
// declaration is read twice. A lock that changes hands costs the requests for this one lock.
func TestWatchReadsAgainOnlyWhatHasChanged(t *testing.T) {
	const locks, holds = 300, 3
	for name, opts := range map[string][]zktest.Option{"allowed": nil, "forbidden": {zktest.WithWords("srvr")}} {
		stats := 64
		if opts != nil { // only a stat tells which contenders are there
			stats += holds
		}
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, manyLocks(locks), func(t *testing.T, b *bench) {
				b.run(exit.OK, "apply", "-auto-approve")
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
					out := b.watched(time.Duration(2*refreshes-1) * time.Second)
					<-done
					require.Contains(t, out, "300 locks, 3 held, 0 waiting.\n")
					return b.server.Counts().ByOp
				}
				nothing := func() {}
				first, eleven := asked(1, nothing), asked(11, nothing)
				require.Equal(t, first["getChildren2"], eleven["getChildren2"], "no directory is listed again")
				require.LessOrEqual(t, eleven["getData"]-first["getData"], holds, "the contenders have their turn, no declaration has")
				require.LessOrEqual(t, eleven["exists"]-first["exists"], 10*stats)
				require.Greater(t, eleven["exists"]-first["exists"], locks, "every node has its turn")

				changed := asked(11, func() {
					_, err := last.Create(t.Context(), node(100), nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
				})
				require.Equal(t, 1, changed["getChildren2"]-eleven["getChildren2"])
			}, opts...)
		})
	}
}

// status -watch needs no configuration. It shows the holder of a lock, also while the holder's client is cut off.
func TestWatchWithoutAConfiguration(t *testing.T) {
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
		out := b.watched(time.Minute, "-servers="+b.addr(), "/")
		require.Contains(t, out, "2 locks, 2 held, 0 waiting.")
		require.Regexp(t, `(?m)^  held by +10\.1\.2\.3 .*connected to no server that was asked`, out)
		frames := strings.SplitAfter(strings.TrimSpace(out), " waiting.\n")
		require.NotContains(t, frames[len(frames)-1], "/java/orders", "its session has ended")

		out = b.watched(time.Second, "-servers="+b.addr(), "-prefix=/python")
		require.Contains(t, out, "/python/jobs")
		require.NotContains(t, out, "/java")
	})
}
