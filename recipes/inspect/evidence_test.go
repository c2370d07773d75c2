package inspect_test

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

const (
	curatorID = "_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-"
	kazooID   = "7f6d0c8f5b0b4a1b8a4c2c1d0e9f8a7b"
)

// A held semaphore of Curator's was taken for a namespace with a mutex in it: the server had deleted the empty one of its sub-nodes.
// Parts of two types in one node counted as one of them.
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
			everyWords(t, func(t *testing.T, _ bool, opts ...zktest.Option) {
				srv := zktest.Start(t, opts...)
				require.NoError(t, srv.Create("/app/x", nil))
				client := readOnly(t, srv)
				s := inspect.NewScanner(client, inspect.ScanOptions{Prefix: "/app"})
				scan(t, s) // it learns that there is no lock yet
				for _, node := range c.nodes {
					dir, _, deep := strings.Cut(node, "/")
					contender := strings.Contains(node, "000")
					if deep || !contender {
						require.NoError(t, srv.Create("/app/x/"+dir, nil))
					}
					if scan(t, s); contender {
						_, err := foreign(t, srv).Create(t.Context(), "/app/x/"+node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
						require.NoError(t, err)
					}
				}
				found, _, err := inspect.Surveyor{Most: 100}.Survey(t.Context(), client, "/app")
				line := strings.TrimSpace(strings.TrimPrefix(found.Lines()[1], "/app/x"))
				text, twoTypes := strings.CutPrefix(line, "left out: ")
				require.Equal(t, c.want, text)
				require.Equal(t, twoTypes, err != nil, "%v", err)

				in, err := inspect.Lock(t.Context(), client, "/app/x")
				snap := scan(t, s)
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

// The nodes of queues, groups, services, parties and barriers became namespaces, which an apply would have marked, and a counter became
// a semaphore, whose data stopped the whole import.
func TestWhatIsNoLockIsNamedAndLeftOut(t *testing.T) {
	srv := zktest.Start(t)
	for path, data := range map[string]string{
		"/java/queue/queue-0000000000": "x", "/java/priority/queue-0000000A0000000001": "x", "/java/ids/queue-|17|0000000000": "x",
		"/java/simple/qn-0000000000": "x", "/java/number": "\x00\x00\x00\x05", "/java/barrier": "10.0.0.7", "/java/group": "", "/java/services/web": "",
		"/py/queue/entry-100-0000000000": "x", "/py/locking/entries/entry-100-0000000000": "x", "/py/locking/taken": "",
		"/py/party": "", "/py/barrier": "", "/py/counter": "5", "/py/never-used": "3", "/py/never": "",
	} {
		require.NoError(t, srv.Create(path, []byte(data)))
	}
	s := foreign(t, srv)
	for _, path := range []string{"/java/group/host-1", "/java/services/web/" + kazooID, "/py/party/" + kazooID + "__party__", "/py/barrier/" + kazooID, "/py/barrier/ready"} {
		_, err := s.Create(t.Context(), path, []byte("{}"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	const members, data, number = "left out: its children are members of a group, a party, a service or a barrier: they end with their sessions and have no number",
		"left out: another program keeps data in it, which the node of an idle lock does not have", "left out: its data is only a number, as that of a counter of kazoo's and of a semaphore that was never used"
	for prefix, want := range map[string][]string{
		"/java": {"|left out: there is no lock below it", "/barrier|" + data, "/group|" + members, "/ids|left out: it is a queue of Curator's", "/number|" + data,
			"/priority|left out: it is a queue of Curator's", "/queue|left out: it is a queue of Curator's", "/services|left out: there is no lock below it", "/services/web|" + members,
			"/simple|left out: it is a queue of Curator's"},
		"/py": {"|unknown: no program uses what is in it", "/barrier|" + members, "/counter|" + number, "/locking|left out: it is a locking queue of kazoo's",
			"/never|unknown: no program uses it", "/never-used|" + number,
			"/party|left out: it is a party of kazoo's", "/queue|left out: it is a queue of kazoo's"},
	} {
		found, _, err := inspect.Surveyor{Most: 100}.Survey(t.Context(), readOnly(t, srv), prefix)
		require.NoError(t, err)
		var lines []string
		for _, line := range found.Lines() {
			path, what, _ := strings.Cut(line, " ")
			lines = append(lines, strings.TrimPrefix(path, prefix)+"|"+strings.TrimSpace(what))
		}
		require.Equal(t, want, lines)
	}
}
