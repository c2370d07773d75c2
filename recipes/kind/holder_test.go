package kind

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAHolderIsEncodedAsEncodingJSONDoes(t *testing.T) {
	some := func(t *rapid.T) Holder {
		text := rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.String())
		at := time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "s"), rapid.Int64Range(0, 1e9).Draw(t, "ns"))
		if rapid.Bool().Draw(t, "UTC") {
			at = at.UTC()
		}
		h := Holder{ID: text.Draw(t, "ID"), Host: text.Draw(t, "host"), PID: rapid.Int().Draw(t, "PID"), Since: at}
		if rapid.Bool().Draw(t, "more") {
			h.Held = rapid.SampledFrom([]*time.Time{nil, &at}).Draw(t, "held")
			h.Limit = rapid.IntRange(0, 3).Draw(t, "limit")
			h.Permits = rapid.IntRange(0, 3).Draw(t, "permits")
			h.RetainMs = rapid.Int64Range(0, 3).Draw(t, "retain")
		}
		return h
	}
	rapid.Check(t, func(t *rapid.T) {
		h := some(t)
		want, err := json.Marshal(h)
		if err != nil {
			want = []byte(h.ID)
		}
		require.Equal(t, string(want), string(h.Encode()))
	})
}
