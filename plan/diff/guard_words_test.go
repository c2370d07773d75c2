package diff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
)

// The command in a message can be copied into a shell.
func TestTheCommandThatHealsCanBeTyped(t *testing.T) {
	for addr, want := range map[string]string{
		"namespace.pay.mutex.ledger": "locktree import -overwrite-data namespace.pay.mutex.ledger /l/a",
		`mutex.a["it's $1"]`:         `locktree import -overwrite-data 'mutex.a["it'\''s $1"]' /l/a`,
	} {
		require.Equal(t, want, healing(&plan.Node{Addr: plan.Addr(addr), Path: "/l/a"}))
	}
}
