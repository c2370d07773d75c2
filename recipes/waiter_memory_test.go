//go:build linux

package recipes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A waiter on a lock of its own takes 12 kB: its goroutine's stack of 8 kB, and less than 4 kB of heap. The runtime doubles a stack of
// 4 kB when the calls from where the goroutine began need more than some 3,100 bytes, and what a waiter calls needs a little
// more. (The race detector makes frames larger.)
func TestAWaitersStackIsNotDoubledTwice(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	const locks = 500
	_, held, waited := memory(t, locks)
	stack, all := (waited.stacks-held.stacks)/locks, (waited.bytes-held.bytes)/locks
	t.Logf("a waiter takes %d bytes of stack and %d of heap", stack, all-stack)
	require.Less(t, stack, int64(10<<10), "most stacks have been doubled to 16 kB")
	require.Less(t, all-stack, int64(4<<10))
}
