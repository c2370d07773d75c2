package kind

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What is in the nodes was written by json.Marshal once, and an index has hashes of it.
func TestEncodeWritesWhatMarshalWrites(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,12}`), rapid.Just("\xff<&>\u2028\x7f\x1f\\\""))
	raws := rapid.MapOf(texts, rapid.SampledFrom([]json.RawMessage{[]byte(`1`), []byte(` { "a" : "<" } `), []byte(`null`)}))
	rapid.Check(t, func(t *rapid.T) {
		p := &Payload{
			Params: &MutexParams{Common: Common{Description: texts.Draw(t, "description"), MaxWaiters: rapid.IntRange(0, 9).Draw(t, "waiters")}},
			Owner:  Owner{texts.Draw(t, "stack"), texts.Draw(t, "addr")}, Protect: rapid.Bool().Draw(t, "protect"), Gen: rapid.Int64().Draw(t, "gen"),
			MovedTo: texts.Draw(t, "to"), unknown: &unknown{raws.Draw(t, "doc"), raws.Draw(t, "spec")},
			ChildACL: rapid.SampledFrom([][]ACL{nil, {}, {{"digest", "u:<h>", PermRead}}}).Draw(t, "acl"),
		}
		spec, doc := map[string]any{}, map[string]any{}
		for k, v := range p.unknown.spec {
			spec[k] = v
		}
		for _, f := range p.Params.Fields() {
			if !f.Inherit || f.Get() != f.Default {
				spec[f.Name] = f.Get()
			}
		}
		for k, v := range p.unknown.doc {
			doc[k] = v
		}
		maps.Copy(doc, map[string]any{
			"locktree": Format, "type": "mutex", "spec": spec, "owner": p.Owner, "protect": p.Protect, "gen": p.Gen, "state": StateActive,
		})
		if p.ChildACL != nil {
			doc["child_acl"] = p.ChildACL
		}
		if p.MovedTo != "" {
			doc["to"] = p.MovedTo
		}
		want, err := json.Marshal(doc)
		require.NoError(t, err)
		got, err := p.Encode()
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

// Found is Decode, or nil.
func TestFoundIsWhatDecodeFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Payload{
			Params: applyDefaults(&SemaphoreParams{Permits: 3, Common: Common{Description: rapid.String().Draw(t, "description")}}),
			Owner:  Owner{"prod", `namespace.n.semaphore.s["1"]`}, ChildACL: []ACL{{"world", "anyone", PermAll}}, Gen: rapid.Int64().Draw(t, "gen"),
		}
		data, err := p.Encode()
		require.NoError(t, err)
		p.Gen = 1
		require.NotNil(t, p.Found(data))
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		data[at] = rapid.OneOf(rapid.Byte(), rapid.ByteRange('0', '9'), rapid.Just(data[at])).Draw(t, "byte")
		if found := p.Found(data); found != nil {
			decoded, err := Decode(data)
			require.NoError(t, err)
			require.Equal(t, decoded, found)
		}
	})
}
