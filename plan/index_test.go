package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/stretchr/testify/require"
)

func TestIndexComesBackWithWhatItDoesNotKnow(t *testing.T) {
	in := `{"apply":"7f","future":{"x":[1]},"key":"0123","locktree":2,"outputs":{"o":{"value":1}},` +
		`"pending_acl":[{"addr":"a","path":"/p","acl":[["world","anyone","r"]]}],` +
		`"res":{"a":{"path":"/p","type":"mutex","gen":2}}}`
	x, err := plan.DecodeIndex([]byte(in))
	require.NoError(t, err)
	require.Equal(t, plan.IndexEntry{Path: "/p", Type: "mutex", Gen: 2}, x.Resources["a"])
	require.Equal(t, kind.PermRead, x.Pending[0].ACL[0].Perms)
	out, err := x.Encode()
	require.NoError(t, err)
	require.Equal(t, in, string(out))
}

func TestNextIndexKeepsFieldsOfNewerVersions(t *testing.T) {
	m := applied(t, base())
	path := plan.IndexPath(testRoot, testStack)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(m.nodes[path].data, &doc))
	doc["future"] = true
	m.nodes[path].data, _ = json.Marshal(doc)
	p := replan(t, m, declared())
	m.apply(t, p)
	require.Contains(t, string(m.nodes[path].data), `"future":true`)
}

func TestForeignDataIsNoIndex(t *testing.T) {
	payload, err := declare("/locks/a", kind.Mutex).Payload.Encode()
	require.NoError(t, err)
	for _, s := range []string{"", "null", "[]", "x", "{}", `{"locktree":1}`, string(payload)} {
		_, err := plan.DecodeIndex([]byte(s))
		require.ErrorIs(t, err, plan.ErrNotIndex, s)
	}
}

func TestIndexErrorsNameWhatIsWrong(t *testing.T) {
	var newer *plan.VersionError
	_, err := plan.DecodeIndex([]byte(`{"locktree":3,"apply":1,"res":[]}`))
	require.ErrorAs(t, err, &newer)
	require.ErrorContains(t, err, "upgrade")
	for field, s := range map[string]string{
		"locktree": `{"locktree":0,"apply":"","res":{}}`,
		"res":      `{"locktree":1,"apply":"","res":[]}`,
		"apply":    `{"locktree":1,"apply":1,"res":{}}`,
		"shards":   `{"locktree":1,"apply":"","res":{},"shards":[{"name":"000001","first":"/a"},{"name":"000001","first":"/b"}]}`,
	} {
		var e *plan.DamagedError
		_, err := plan.DecodeIndex([]byte(s))
		require.ErrorAs(t, err, &e)
		require.Equal(t, field, e.Field)
		require.ErrorContains(t, err, fmt.Sprintf("index: %s", field))
	}
}

func FuzzDecodeIndex(f *testing.F) {
	x := &plan.Index{Apply: "a", Resources: map[string]plan.IndexEntry{"m": {Path: "/m"}}, Pending: []plan.PendingACL{{ACL: kind.WorldAll()}}}
	good, err := x.Encode()
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"locktree":1e99,"apply":"","res":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := plan.DecodeIndex(data)
		if err != nil {
			require.Nil(t, x)
			return
		}
		out, err := x.Encode()
		if err != nil {
			return // an access entry without permissions can be read and not written
		}
		again, err := plan.DecodeIndex(out)
		require.NoError(t, err)
		second, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(out), string(second))
	})
}

// Two entries of one path, which only a hand can have written: which of them a plan went by
// was left to the order of a map.
func TestIndexWithTwoEntriesForAPathGivesOnePlan(t *testing.T) {
	m := applied(t, base())
	live := m.read(t, testRoot, testStack)
	solo := live.Index.Resources["namespace.x.election.locks_solo"]
	for i := range 8 {
		live.Index.Resources[fmt.Sprintf("copy%d", i)] = solo
	}
	live.Nodes = slices.DeleteFunc(live.Nodes, func(n *plan.Node) bool { return n.Path == solo.Path })
	for range 20 {
		p := plan.Diff(live, base(), plan.Options{Identities: us})
		require.Equal(t, []plan.Drift{{Addr: "copy0", Path: solo.Path, What: plan.DriftDeleted}}, p.Drifted)
	}
}
