//go:build linux

package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReply: whatever a server answers, the suite reports it and does not fall
// over, and does not allocate by a length or count it was told.
func FuzzReply(f *testing.F) {
	for op := range names {
		f.Add(op, []byte(nil))
		f.Add(op, []byte("\x00\x00\x00\x01\x00\x00\x00\x02/a\xff\xff\xff\xff"))
		f.Add(op, []byte("\x7f\xff\xff\xff"))
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		p := &player{root: "/r", owners: map[int64]string{}}
		require.Contains(t, p.reply(Op{Op: op}, frame{body: in{body}}), "code=0")
	})
}
