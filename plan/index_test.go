package plan_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/stretchr/testify/require"
)

func TestIndexComesBackWithWhatItDoesNotKnow(t *testing.T) {
	in := `{"apply":"7f","future":{"x":[1]},"key":"0123","locktree":3,"outputs":{"o":{"value":1}},` +
		`"pending_acl":[{"from":[["world","anyone","cr"]],"to":[["world","anyone","r"]]}],` +
		`"res":{}}`
	x, err := plan.DecodeIndex([]byte(in))
	require.NoError(t, err)
	require.Equal(t, kind.PermRead, x.Pending[0].To[0].Perms)
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
	_, err := plan.DecodeIndex([]byte(`{"locktree":4,"apply":1,"res":[]}`))
	require.ErrorAs(t, err, &newer)
	require.ErrorContains(t, err, "upgrade")
	for field, s := range map[string]string{
		"locktree": `{"locktree":0,"apply":"","res":{}}`,
		"res":      `{"locktree":1,"apply":"","res":[]}`,
		"apply":    `{"locktree":1,"apply":1,"res":{}}`,
		"away":     `{"locktree":3,"apply":"","res":{},"away":{}}`,
	} {
		_, err := plan.DecodeIndex([]byte(s))
		require.ErrorContains(t, err, fmt.Sprintf("plan: damaged record: %s: ", field))
	}
}

func FuzzDecodeIndex(f *testing.F) {
	x := &plan.Index{Apply: "a", Away: []string{"/m"}, Pending: []plan.PendingACL{{To: kind.WorldAll()}}}
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

// Whoever has a record of a former format can understand all that it says that no node does.
func TestARecordOfAFormerFormatNamesAllNodesAndTheListsThatArePending(t *testing.T) {
	const common = `"apply":"7f","access":[["digest","ops:AAAA","cdrwa"]],"outputs":{"o":{"type":"string","value":"v"},"p":{"sensitive":true}}`
	const parts = `"shards":[{"name":"000001","first":"/c"}]`
	const named = `"pending_acl":[{"addr":"a","path":"/a","acl":[["world","anyone","r"]]},{"addr":"b","path":"/b","acl":[["world","anyone","r"]]}]`
	pending := []plan.PendingACL{{To: kind.List{{Scheme: "world", ID: "anyone", Perms: kind.PermRead}}}}
	for name, c := range map[string]struct {
		record, key string
		pending     []plan.PendingACL
	}{
		"first":                                {`{"locktree":1,"res":{"b":{"path":"/b","type":"mutex","gen":1,"hash":"b0a4"},"a":{"path":"/a","type":"namespace","gen":2,"hash":"","quota":7}},` + parts + `,` + named + `,`, "", pending},
		"first, with more lists than it names": {`{"locktree":1,"res":{"b":{"path":"/b"},"a":{"path":"/a"}},` + parts + `,"pending_acl":[{"acl":[["world","anyone","r"]]}],`, "", pending},
		"first, with lists that it knows":      {`{"locktree":1,"res":{"b":{"path":"/b"},"a":{"path":"/a"}},` + parts + `,"lists":"AAAAAAAAAAcAAAAAAAAACAAAAAAAAAAJAAAAAAAAAAo=",`, "", nil},
		"second":                               {`{"locktree":2,"key":"k","res":{"b":{"path":"/b"},"a":{"path":"/a"}},` + parts + `,` + named + `,`, "k", pending},
	} {
		x, err := plan.DecodeIndex([]byte(c.record + common + `}`))
		require.NoError(t, err, name)
		x.AddPart([]byte(`{"locktree":2,"res":{"c":{"path":"/c","type":"mutex","gen":1,"hash":"00"}}}`))
		x.AddPart([]byte("junk"))
		require.Equal(t, &plan.Index{
			Apply: "7f", Key: c.key, Away: []string{"/a", "/b", "/c"}, Pending: c.pending,
			Access:  kind.List{{Scheme: "digest", ID: "ops:AAAA", Perms: kind.PermAll}},
			Outputs: map[string]plan.Output{"o": {Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"v"`)}, "p": {Sensitive: true}},
		}, x, name)
	}
}
