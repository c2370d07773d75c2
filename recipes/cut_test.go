package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// longestReply is more than any reply of these scenarios is long: beyond it CutAt cuts behind the reply.
const longestReply = 260

func TestAConnectionCutAtAnyByteOfAnyReplyLeavesOneHolderAndNoGhost(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for _, name := range []string{"create", "getChildren2", "getData", "setData", "multi", "delete", "multi of a search", "exists of a search"} {
		t.Run(name, func(t *testing.T) {
			op, _, search := strings.Cut(name, " of a ")
			inLab(t, func(t *testing.T, l *lab) {
				m := l.mutex()
				a, b := l.client("a"), l.client("b")
				if name == "setData" { // a mark
					a.Crowd(1)
					b.Crowd(1)
				}
				struck := 0
				for n := range longestReply {
					lost := !search // a search only happens when a create's reply is lost first
					rules := []*zktest.Injection{l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return lost && at(op)(r) }), zktest.CutAt(n))}
					if search {
						rules = append(rules, l.srv.Inject(zktest.Once(func(r zktest.Request) bool {
							hit := at("create")(r)
							lost = lost || hit
							return hit
						}), zktest.DropReply))
					}
					l.scene(m, a, b, fmt.Sprintf("%s cut at byte %d", op, n))
					for i, rule := range rules {
						if i == 0 {
							struck += rule.Hits()
						}
						rule.Remove()
					}
				}
				require.Positive(t, struck, "the scene has no %s", op)
			})
		})
	}
}

// scene is an acquisition, a hand-off to a goroutine of the same client, one to another client, and a release.
func (l *lab) scene(m string, a, b *recipes.Client, what string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	holders := make(chan int, 10)
	errs := make(chan error, 3)
	for _, c := range []*recipes.Client{a, a, b} {
		go func() {
			errs <- c.Mutex(m).Do(ctx, func(context.Context, *recipes.Lease) error {
				holders <- 1
				time.Sleep(100 * time.Millisecond)
				holders <- -1
				return nil
			})
		}()
		time.Sleep(oneWay / 2)
	}
	for range 3 {
		require.NoError(l.t, <-errs, what)
	}
	close(holders)
	now := 0
	for d := range holders {
		now += d
		require.LessOrEqual(l.t, now, 1, "%s: two holders", what)
	}
	time.Sleep(2 * time.Second)
	require.Empty(l.t, l.children(m), what)
}

func TestASessionThatWasIdleGrantsInOneRoundTripAndForAWhile(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		l.warm(m)
		time.Sleep(time.Hour)
		start := time.Now()
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*oneWay, time.Since(start))
		require.Greater(t, time.Until(x.Deadline()), 4*time.Second, "of half a session timeout of 12 s")
		time.Sleep(time.Hour)
		require.NoError(t, x.Context().Err())
		require.Greater(t, time.Until(x.Deadline()), 3*time.Second, "heartbeats move the deadline on")
		l.unlock(x)
	})
}

func TestASearchIgnoresANodeOfAnotherSession(t *testing.T) { // case 2, 49: CURATOR-498; kazoo adopts it
	inLab(t, func(t *testing.T, l *lab) {
		c, other := l.client("a"), l.client("b")
		m := c.Mutex(l.mutex())
		l.warm(m)
		s, err := c.Live(t.Context())
		require.NoError(t, err)
		ks, err := m.Contenders(t.Context(), s, 1)
		require.NoError(t, err)
		theirs, err := other.Session(t.Context())
		require.NoError(t, err)
		_, err = theirs.Create(t.Context(), kind.JoinPath("/m", ks[0].Prefix), nil, 3, openACL)
		require.NoError(t, err)
		name, err := recipes.Find(t.Context(), s, ks[0])
		require.NoError(t, err)
		require.Empty(t, name)
	})
}
