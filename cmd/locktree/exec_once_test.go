//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// A command that is told to end has not succeeded, whatever it exits with.
func TestExecOnceRecordsHowItsCommandEnded(t *testing.T) {
	server, dir := declareLedger(t)
	p := kind.Once.New().(*kind.OnceParams)
	p.Schedule = "* * * * *"
	require.NoError(t, server.Provision("/t/job", &kind.Payload{Params: p, Since: 1}))
	require.NoError(t, server.Set("/t/job/once-record", []byte(`{"since":1}`)))
	x := startExecOn(t, server, dir, "-once", "/t/job", "--", "sh", "-c", `trap 'exit 0' TERM; echo $LOCKTREE_LOCK_NODE; while :; do sleep 0.05; done`)
	require.NoError(t, x.other().Revoke(t.Context(), x.line()))
	x.ends(exit.Lost)
	node, ok := server.Get("/t/job/once-record")
	require.True(t, ok)
	record, err := slots.ParseRecord(node.Data)
	require.NoError(t, err)
	require.Len(t, record.Slots, 1)
	require.Equal(t, slots.Failed, record.Slots[0].State)
	require.Equal(t, "ended: another program asks for /t/job back", record.Slots[0].Result)
}
