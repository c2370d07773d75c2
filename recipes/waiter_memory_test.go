//go:build linux && !race

package recipes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A waiter takes its goroutine's stack, mostly. The runtime doubles a stack of 4 kB when the calls from where the goroutine began
// need more than some 3,100 bytes. What a waiter calls needs that nearly: a caller with large frames of its own waits on a stack of 8 kB.
// (The race detector makes frames larger.)
func TestAWaiterOnALockOfItsOwnTakesAtMost8KB(t *testing.T) {
	const locks = 500
	_, held, waited := memory(t, locks)
	require.LessOrEqual(t, (waited.bytes-held.bytes)/locks, int64(8<<10))
	require.Less(t, (waited.stacks-held.stacks)/locks, int64(6<<10), "most stacks have been doubled to 8 kB")
}
