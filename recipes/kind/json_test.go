package kind

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Formerly, json.Marshal wrote the data of nodes. Encode must write the same bytes, because the sums in the nodes (record.Sum) cover them.
func TestEncodeWritesWhatMarshalWrites(t *testing.T) {
	raws := func(r *rand.Rand) map[string]json.RawMessage {
		all := map[string]json.RawMessage{}
		for range r.IntN(4) {
			all[anyText(r)] = []json.RawMessage{[]byte(`1`), []byte(` { "a" : "<" } `), []byte(`null`)}[r.IntN(3)]
		}
		return all
	}
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := &Payload{
			Params: &MutexParams{Common: Common{Description: anyText(r), MaxWaiters: r.IntN(3)}},
			Owner:  Owner{anyText(r), anyText(r)}, Protect: r.IntN(2) == 0, Gen: r.Int64() >> r.IntN(64),
			Unknown:  &unknown{Doc: raws(r), Spec: raws(r)},
			ChildACL: []List{nil, {}, {{"digest", "u:<h>", PermRead}}}[r.IntN(3)],
		}
		spec, doc := map[string]any{}, map[string]any{}
		for k, v := range p.Unknown.Spec {
			spec[k] = v
		}
		for _, f := range p.Params.Fields() {
			if !f.Inherit && !f.Derived || f.Get() != f.Default {
				spec[f.Name] = f.Get()
			}
		}
		for k, v := range p.Unknown.Doc {
			doc[k] = v
		}
		maps.Copy(doc, map[string]any{
			"locktree": Format, "type": "mutex", "spec": spec, "owner": p.Owner, "protect": p.Protect, "gen": p.Gen, "state": StateActive,
		})
		if p.ChildACL != nil {
			doc["child_acl"] = p.ChildACL
		}
		want, err := json.Marshal(doc)
		require.NoError(t, err)
		got, err := p.Encode()
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// Found returns what Decode returns, or nil.
func TestFoundIsWhatDecodeFinds(t *testing.T) {
	changed := 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := &Payload{
			Params: applyDefaults(&SemaphoreParams{Permits: 3, Common: Common{Description: anyText(r)}}),
			Owner:  Owner{"prod", `namespace.n.semaphore.s["1"]`}, ChildACL: List{{"world", "anyone", PermAll}}, Gen: r.Int64() >> r.IntN(64),
		}
		data, err := p.Encode()
		require.NoError(t, err)
		p.Gen = 1
		require.NotNil(t, p.Found(data))
		data[r.IntN(len(data))] = byte('0' + r.IntN(10))
		found := p.Found(data)
		if found == nil {
			changed++
			continue
		}
		decoded, err := Decode(data)
		require.NoError(t, err)
		require.Equal(t, decoded, found)
	}
	require.NotZero(t, changed)
}
