//go:build linux

package interop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// Programs of Curator and kazoo that know nothing of us, in locks that nobody declared: who holds, who waits, and where they
// connect from, on Apache ZooKeeper with its words allowed and forbidden.
func TestForeignProgramsAreSeenWithTheirQueues(t *testing.T) {
	for name, words := range map[string]string{"words allowed": "*", "words forbidden": "srvr"} {
		t.Run(name, func(t *testing.T) {
			l := newLabAllowing(t, words)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, path := range []string{"/java", "/java/orders", "/python", "/python/jobs"} {
				l.create(t, path, nil)
			}
			declared := l.provision(t, kind.Mutex.New())
			curator, kazoo := foreign("curator", java, "mutex"), foreign("kazoo", python, "lock")
			for path, p := range map[string]party{"/java/orders": curator, "/python/jobs": kazoo, declared: curator} {
				require.NoError(t, p.enter(t, l, path).acquire(ctx))
			}
			granted := l.request(ctx, ours("go", "", goMutex).enter(t, l, declared))
			l.awaitContenders(t, declared, 2)

			c := l.readOnly(t)
			s := scan.New(c, scan.Options{Prefix: "/"})
			for range 2 { // the second one from what it knows
				snap, err := s.Scan(ctx)
				require.NoError(t, err)
				require.Equal(t, words == "*", snap.Dump)
				require.Empty(t, snap.Unread)
				var seen []string
				for _, in := range snap.Locks {
					line := in.Path + " " + in.Kind.String()
					for _, c := range in.Holders {
						line += " held by " + c.Writer + " session " + fmt.Sprintf("0x%x", c.Session)
						require.Equal(t, words == "*", strings.HasPrefix(snap.Sessions[c.Session].Address, "127.0.0.1:"))
						require.Equal(t, words == "*", !snap.Sessions[c.Session].Expires.IsZero())
					}
					seen = append(seen, fmt.Sprintf("%s, %d waiting", line, len(in.Waiters)))
				}
				require.ElementsMatch(t, []string{
					"/java/orders mutex held by curator session " + l.java.session + ", 0 waiting",
					"/python/jobs mutex held by kazoo session " + l.python.session + ", 0 waiting",
					declared + " mutex held by curator session " + l.java.session + ", 1 waiting",
				}, seen)
				require.Len(t, snap.Waits.All, 1)
			}
			cancel()
			<-granted
		})
	}
}
