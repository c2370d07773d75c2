package scan_test

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/survey"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

const (
	curatorID = "_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-"
	kazooID   = "7f6d0c8f5b0b4a1b8a4c2c1d0e9f8a7b"
)

// A held Curator semaphore was taken for a namespace with a mutex in it: the server had deleted the semaphore's empty sub-node. A node
// with parts of two types counted as one of the types.
func TestALockIsRecognisedByAllThatRemainsOfIt(t *testing.T) {
	const mixed = "it holds parts of two types of locks: "
	for _, c := range []struct {
		name  string
		nodes []string
		want  string
	}{
		{"only permits remain", []string{"leases/" + curatorID + "lease-0000000000"}, "semaphore, 1 in its queue"},
		{"a mutex in a namespace, with the name of a part", []string{"leases/" + curatorID + "lock-0000000000"}, "namespace"},
		{"another one", []string{"locks/" + curatorID + "lock-0000000000"}, "namespace"},
		{"both sub-nodes, idle", []string{"leases", "locks"}, "semaphore"},
		{"one sub-node, idle", []string{"leases"}, "unknown: no program uses what is in it"},
		{"kazoo's writer and reader", []string{kazooID + "__lock__0000000000", kazooID + "__rlock__0000000001"}, "rwlock, 2 in its queue"},
		{"kazoo's candidate and Curator's", []string{kazooID + "__lock__0000000000", curatorID + "latch-0000000001"}, "election, 2 in its queue"},
		{"kazoo's mutex and go-zookeeper's", []string{kazooID + "__lock__0000000000", "_c_" + kazooID + "-lock-0000000001"}, "mutex, 2 in its queue"},
		{"a mutex and an election", []string{curatorID + "lock-0000000000", curatorID + "latch-0000000001"},
			mixed + "mutex (" + curatorID + "lock-0000000000) and election (" + curatorID + "latch-0000000001)"},
		{"a mutex and a reader", []string{curatorID + "__READ__0000000000", curatorID + "lock-0000000001"},
			mixed + "rwlock (" + curatorID + "__READ__0000000000) and mutex (" + curatorID + "lock-0000000001)"},
		{"a mutex and a semaphore", []string{curatorID + "lock-0000000000", "leases/" + curatorID + "lease-0000000000"},
			mixed + "mutex (" + curatorID + "lock-0000000000) and semaphore (leases)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyWords(t, func(t *testing.T, _ bool, srv *zktest.Server) {
				require.NoError(t, srv.Create("/app/x", nil))
				client := harness.ReadOnly(t, srv)
				s := scan.New(client, scan.Options{Prefix: "/app"})
				lookOnce(t, s) // it learns that there is no lock yet
				for _, node := range c.nodes {
					dir, _, deep := strings.Cut(node, "/")
					contender := strings.Contains(node, "000")
					if deep || !contender {
						require.NoError(t, srv.Create("/app/x/"+dir, nil))
					}
					if lookOnce(t, s); contender {
						_, err := harness.Foreign(t, srv).Create(t.Context(), "/app/x/"+node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
						require.NoError(t, err)
					}
				}
				found, _, err := survey.Surveyor{Most: 100}.Survey(t.Context(), client, "/app")
				line := strings.TrimSpace(strings.TrimPrefix(found.Lines()[1], "/app/x"))
				text, twoTypes := strings.CutPrefix(line, "left out: ")
				require.Equal(t, c.want, text)
				require.Equal(t, twoTypes, err != nil, "%v", err)

				in, err := inspect.Lock(t.Context(), client, "/app/x")
				snap := lookOnce(t, s)
				kindOf, _, _ := strings.Cut(c.want, ",")
				switch {
				case twoTypes:
					require.EqualError(t, err, c.want)
					require.Equal(t, []string{"/app/x " + c.want}, lines(snap))
				case kind.Lookup(kindOf) == nil, kindOf == "namespace":
					require.Nil(t, in.Kind)
					require.NotContains(t, strings.Join(lines(snap), "\n"), "/app/x ")
				default:
					require.Equal(t, kindOf, in.Kind.Name)
					require.Len(t, snap.Locks, 1)
					require.Equal(t, "/app/x "+kindOf, snap.Locks[0].Path+" "+snap.Locks[0].Kind.Name)
				}
			})
		})
	}
}
