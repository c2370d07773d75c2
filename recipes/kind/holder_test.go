package kind

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHolderIsEncodedAsEncodingJSONDoes(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		at := time.Unix(r.Int64N(1<<41)-1<<40, r.Int64N(1e9)>>r.IntN(30))
		if r.IntN(4) > 0 {
			at = at.UTC()
		}
		h := Holder{ID: anyText(r), Host: anyText(r), PID: int(r.Int64()) >> r.IntN(63), Since: at}
		if r.IntN(2) == 0 {
			h.Held = []*time.Time{nil, &at}[r.IntN(2)]
			h.Limit, h.Permits = r.IntN(3), r.IntN(3)
		}
		want, err := json.Marshal(h)
		if err != nil {
			want = []byte(h.ID)
		}
		require.Equal(t, string(want), string(h.Encode()))
	}
}

// anyText has many characters that JSON writes in special ways.
func anyText(r *rand.Rand) string {
	text := make([]byte, 0, 40)
	for range r.IntN(10) {
		switch r.IntN(8) {
		case 0:
			text = append(text, byte(r.IntN(256))) // so perhaps not UTF-8
		case 1:
			text = append(text, []string{"\u2028", "\u2029", "é", "🔒", "\ufffd"}[r.IntN(5)]...)
		case 2:
			text = append(text, `<>&"\`[r.IntN(5)])
		default:
			text = append(text, ' '+byte(r.IntN('~'-' '+1)))
		}
	}
	return string(text)
}
