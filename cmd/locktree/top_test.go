package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
