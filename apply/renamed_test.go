package apply_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// A new address was destroy and create: what a configuration intends was in two places, and only the command put them together.
func TestProgramThatFollowsThePackageDocumentationKeepsARenamedLock(t *testing.T) {
	srv, inputs := server()
	defer srv.Close()
	dir := t.TempDir()
	write(dir, first)
	require.NoError(t, provision(t.Context(), io.Discard, dir, inputs...))
	another(srv)
	made, _ := srv.Get("/locks/payments/books")
	write(dir, second)
	require.NoError(t, provision(t.Context(), io.Discard, dir, inputs...))

	payload := func(path string) *kind.Payload {
		node, ok := srv.Get(path)
		require.True(t, ok, "%s is gone", path)
		decoded, err := kind.Decode(node.Data)
		require.NoError(t, err)
		return decoded
	}
	books := payload("/locks/payments/books")
	require.Equal(t, "namespace.payments.mutex.ledger", books.Owner.Addr, "the declaration has another address")
	require.Equal(t, int64(2), books.Gen, "the same declaration goes on")
	node, _ := srv.Get("/locks/payments/books")
	require.Equal(t, made.Stat.Czxid, node.Stat.Czxid, "the lock is the same node")
}
