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
		`"pending_acl":[{"from":[["world","anyone","cr"]],"to":[["world","anyone","r"]]}]}`
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
	_, err := plan.DecodeIndex([]byte(`{"locktree":4,"apply":1,"untracked":{}}`))
	require.ErrorAs(t, err, &newer)
	require.ErrorContains(t, err, "upgrade")
	for field, s := range map[string]string{
		"locktree":  `{"locktree":0,"apply":""}`,
		"outputs":   `{"locktree":3,"apply":"","outputs":[]}`,
		"apply":     `{"locktree":3,"apply":1}`,
		"untracked": `{"locktree":3,"apply":"","untracked":{}}`,
	} {
		_, err := plan.DecodeIndex([]byte(s))
		require.ErrorContains(t, err, fmt.Sprintf("plan: damaged record: %s: ", field))
	}
}

func FuzzDecodeIndex(f *testing.F) {
	x := &plan.Index{Apply: "a", Untracked: []string{"/m"}, Pending: []plan.PendingACL{{To: kind.WorldAll()}}}
	good, err := x.Encode()
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"locktree":1e99,"apply":""}`))
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
