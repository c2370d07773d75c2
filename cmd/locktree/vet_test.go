package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVetNeedsTheGoCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	require.Equal(t, exitError, run(context.Background(), []string{"vet"}, nil, strings.NewReader(""), &out, &out))
	require.Contains(t, out.String(), "Error: No go command")
}

// Only "go vet" calls the program like this: no command begins with a flag and ends with a file of its.
func TestOnlyGoVetRunsAUnit(t *testing.T) {
	for args, want := range map[string]bool{
		"-V=full": true, "-flags": true, "-advice -config=/a /tmp/b001/vet.cfg": true, "vet.cfg": true,
		"": false, "vet ./...": false, "exec ledger -- cat vet.cfg": false, "-chdir=a plan -var-file=x.cfg": false, "-version": false,
	} {
		require.Equal(t, want, isVetUnit(strings.Fields(args)), args)
	}
}
