package survey_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/survey"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// inTree runs f on a server with a tree of 3 namespaces of 4 locks each, in fake time.
func inTree(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *session.Client)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(time.Millisecond))
		for i := range 3 {
			for j := range 4 {
				lock := fmt.Sprintf("/locks/%d/%d", i, j)
				require.NoError(t, srv.Create(lock+fmt.Sprintf("/_c_11111111-1111-4111-8111-11111111111%d-lock-0000000000", j), nil))
			}
		}
		require.NoError(t, srv.Create("/locks/.locktree/apply", nil))
		c, err := session.Dial(t.Context(), session.Config{Servers: []string{"zk"}, Dialer: srv.DialContext, SessionTimeout: 12 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		f(t, srv, c)
	})
}

// A bounded survey finds the same each time: a higher bound only adds to it.
func TestABoundedWalkFindsTheSameEachTime(t *testing.T) {
	inTree(t, func(t *testing.T, _ *zktest.Server, c *session.Client) {
		found := func(most int) (paths []string, cut bool) {
			top, cut, err := survey.Surveyor{Most: most}.Survey(t.Context(), c, "/")
			require.NoError(t, err)
			var list func(f *survey.Found)
			list = func(f *survey.Found) {
				if f.Kind == kind.Mutex {
					require.Equal(t, 1, f.InUse)
					paths = append(paths, f.Path)
				}
				for _, sub := range f.Inside {
					list(sub)
				}
			}
			list(top)
			return paths, cut
		}
		all, cut := found(100)
		require.False(t, cut)
		require.Len(t, all, 12)
		for most := range 1 + 3 + 12 {
			paths, cut := found(most)
			require.True(t, cut)
			require.Equal(t, all[:max(most-4, 0)], append([]string{}, paths...), "%d", most)
		}
		_, cut = found(1 + 3 + 12)
		require.False(t, cut)
	})
}

// A level costs the network's latency once, not once per node.
func TestAWalkReadsManyNodesAtATime(t *testing.T) {
	inTree(t, func(t *testing.T, srv *zktest.Server, c *session.Client) {
		srv.ResetCounts()
		_, _, err := survey.Surveyor{Most: 100}.Survey(t.Context(), c, "/locks")
		require.NoError(t, err)
		counts := srv.Counts()
		require.Equal(t, 3*(1+3+12)+12, counts.Total, "three requests a node, and one a contender: %v", counts.ByOp)
		require.LessOrEqual(t, counts.RoundTrips, 3*3+1)
	})
}

func TestASurveySkipsNodesThatItMayNotRead(t *testing.T) {
	inTree(t, func(t *testing.T, srv *zktest.Server, c *session.Client) {
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		_, err = s.SetACL(t.Context(), "/locks/1", []zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: "boss:" + strings.Repeat("A", 27) + "="}}, -1)
		require.NoError(t, err)
		found, _, err := survey.Surveyor{Most: 100}.Survey(t.Context(), c, "/locks")
		require.NoError(t, err)
		require.Equal(t, "this connection may not read it", found.Inside[1].Skip)
		require.Len(t, found.Inside, 3)
		_, _, err = survey.Surveyor{Most: 100}.Survey(t.Context(), c, "/nowhere")
		require.ErrorIs(t, err, zk.ErrNoNode)
	})
}

// A survey says what a person should know of each node. All of it comes from the kinds.
func TestASurveyDescribesEachNode(t *testing.T) {
	inTree(t, func(t *testing.T, srv *zktest.Server, c *session.Client) {
		const uuid = "0123456789abcdef0123456789abcdef"
		for _, node := range [][2]string{ // in order: a parent would be created empty
			{"/py/idle", "5"}, {"/py/idle-__lock__", ""}, {"/py/held", "3"}, {"/py/held/" + uuid, "worker"},
			{"/py/mutex/" + uuid + "__lock__0000000000", ""}, {"/py/empty", ""},
		} {
			require.NoError(t, srv.Create(node[0], []byte(node[1])))
		}
		require.NoError(t, srv.Provision("/py/ours", &kind.Payload{Params: kind.RWLock.New(), Owner: kind.Owner{Stack: "shop", Addr: "rwlock.ours"}}))
		o := survey.Surveyor{Stack: "shop", Idle: func(string) *kind.Kind { return kind.Election }, Most: 100}
		found, cut, err := o.Survey(t.Context(), c, "/py")
		require.NoError(t, err)
		require.False(t, cut)
		lines := []string{"/py|namespace", "/py/empty|election", "/py/held|left out: it is a semaphore of kazoo's with 3 permits, 1 of them taken, which programs of this library do not count: " +
			"declare it when no program uses kazoo's Semaphore any more", "/py/idle|semaphore", "/py/idle-__lock__|left out: it is the queue of kazoo's semaphore /py/idle",
			"/py/mutex|mutex, 1 in its queue", `/py/ours|left out: it already is rwlock.ours of the stack "shop"`}
		for i, line := range found.Lines() {
			path, what, _ := strings.Cut(line, " ")
			require.Equal(t, lines[i], path+"|"+strings.TrimSpace(what))
		}
		require.Equal(t, 5, kind.Semaphore.Permits(found.Inside[2].Params))
		require.True(t, found.Inside[2].Stops)
		for _, f := range found.Inside[4].Params.Fields() {
			require.True(t, f.Name != "wire" || f.Get() == "kazoo", f.Get())
		}
		_, cut, err = survey.Surveyor{Most: 3}.Survey(t.Context(), c, "/py")
		require.NoError(t, err)
		require.True(t, cut)

		inner, _, err := o.Survey(t.Context(), c, "/locks/1/2")
		require.NoError(t, err)
		for root, top := range map[string]string{"/": "/locks", "/locks": "/locks/1", "/locks/1": "/locks/1/2", "/locks/1/2": "/locks/1/2", "/py": "/locks/1/2"} {
			whole, err := o.Around(t.Context(), c, inner, root)
			require.NoError(t, err)
			require.Equal(t, top, whole.Path, root)
		}
	})
}

// The nodes of queues, groups, services, parties and barriers became namespaces, which an apply would have marked, and a counter became
// a semaphore, whose data stopped the whole import.
func TestWhatIsNoLockIsNamedAndLeftOut(t *testing.T) {
	srv := zktest.Start(t)
	const uuid = "0123456789abcdef0123456789abcdef"
	for path, data := range map[string]string{
		"/java/queue/queue-0000000000": "x", "/java/priority/queue-0000000A0000000001": "x", "/java/ids/queue-|17|0000000000": "x",
		"/java/simple/qn-0000000000": "x", "/java/number": "\x00\x00\x00\x05", "/java/barrier": "10.0.0.7", "/java/group": "", "/java/services/web": "",
		"/py/queue/entry-100-0000000000": "x", "/py/locking/entries/entry-100-0000000000": "x", "/py/locking/taken": "",
		"/py/party": "", "/py/barrier": "", "/py/counter": "5", "/py/never-used": "3", "/py/never": "",
	} {
		require.NoError(t, srv.Create(path, []byte(data)))
	}
	s := harness.Foreign(t, srv)
	for _, path := range []string{"/java/group/host-1", "/java/services/web/" + uuid, "/py/party/" + uuid + "__party__", "/py/barrier/" + uuid, "/py/barrier/ready"} {
		_, err := s.Create(t.Context(), path, []byte("{}"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	const members, data, number = "left out: its children are members of a group, a party, a service or a barrier: they end with their sessions and have no number",
		"left out: another program keeps data in it, which the node of an idle lock does not have", "left out: its data is only a number: it may be a counter of kazoo's, or a semaphore that was never used"
	for prefix, want := range map[string][]string{
		"/java": {"|left out: there is no lock below it", "/barrier|" + data, "/group|" + members, "/ids|left out: it is a queue of Curator's", "/number|" + data,
			"/priority|left out: it is a queue of Curator's", "/queue|left out: it is a queue of Curator's", "/services|left out: there is no lock below it", "/services/web|" + members,
			"/simple|left out: it is a queue of Curator's"},
		"/py": {"|unknown: no program uses what is in it", "/barrier|" + members, "/counter|" + number, "/locking|left out: it is a locking queue of kazoo's",
			"/never|unknown: no program uses it", "/never-used|" + number,
			"/party|left out: it is a party of kazoo's", "/queue|left out: it is a queue of kazoo's"},
	} {
		found, _, err := survey.Surveyor{Most: 100}.Survey(t.Context(), harness.ReadOnly(t, srv), prefix)
		require.NoError(t, err)
		var lines []string
		for _, line := range found.Lines() {
			path, what, _ := strings.Cut(line, " ")
			lines = append(lines, strings.TrimPrefix(path, prefix)+"|"+strings.TrimSpace(what))
		}
		require.Equal(t, want, lines)
	}
}
