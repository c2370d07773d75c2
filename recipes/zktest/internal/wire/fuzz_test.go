package wire_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// FuzzDecodeRequest: whatever a frame holds, decoding it neither panics nor allocates out of proportion to its length.
func FuzzDecodeRequest(f *testing.F) {
	for op := range wire.OpNames {
		for _, body := range []string{"", "\x00\x00\x00\x02/a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", strings.Repeat("\xff", 40)} {
			e := wire.NewEncoder()
			e.Int32(1)
			e.Int32(op)
			f.Add(append(e.Frame()[4:], body...))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := wire.DecodeRequest(frame)
		_, _ = wire.DecodeConnect(frame)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64*len(frame)+1<<20))
		if err == nil {
			r.Paths()
		}
	})
}
