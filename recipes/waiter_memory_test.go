//go:build linux && !race

package recipes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A waiter on a lock of its own takes 8 kB: its goroutine's stack of 4 kB, and less than 4 kB of heap. The runtime doubles such a
// stack when the calls from where the goroutine began need more than some 3,100 bytes. What a waiter calls needs nearly that: a caller
// with large frames of its own waits on a stack of 8 kB. (The race detector makes frames larger.)
func TestAWaitersStackIsNotDoubled(t *testing.T) {
	const locks = 500
	_, held, waited := memory(t, locks)
	stack, all := (waited.stacks-held.stacks)/locks, (waited.bytes-held.bytes)/locks
	t.Logf("a waiter takes %d bytes of stack and %d of heap", stack, all-stack)
	require.Less(t, stack, int64(6<<10), "most stacks have been doubled to 8 kB")
	require.Less(t, all-stack, int64(4<<10))
}
