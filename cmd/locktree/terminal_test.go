package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
)

// The precedence of the colour switches, on a stream that is no terminal.
func TestColor(t *testing.T) {
	for name, c := range map[string]struct {
		env  stack.Environ
		flag bool
		want bool
	}{
		"a pipe has none":                   {nil, false, false},
		"forced":                            {stack.Environ{"CLICOLOR_FORCE=1"}, false, true},
		"zero does not force":               {stack.Environ{"CLICOLOR_FORCE=0"}, false, false},
		"NO_COLOR beats the force":          {stack.Environ{"CLICOLOR_FORCE=1", "NO_COLOR=1"}, false, false},
		"an empty NO_COLOR is none":         {stack.Environ{"CLICOLOR_FORCE=1", "NO_COLOR="}, false, true},
		"-no-color beats everything":        {stack.Environ{"CLICOLOR_FORCE=1"}, true, false},
		"the last of two settings counts":   {stack.Environ{"NO_COLOR=1", "NO_COLOR=", "CLICOLOR_FORCE=1"}, false, true},
		"a longer name is another variable": {stack.Environ{"NO_COLORS=1", "CLICOLOR_FORCE=1"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			term := terminal{env: c.env, noColor: c.flag}
			require.Equal(t, c.want, term.color(&strings.Builder{}))
		})
	}
}

// A question nobody answers must not outlive the interrupt.
func TestApprovalEndsWithTheInterrupt(t *testing.T) {
	never, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := app{terminal: terminal{stdin: never, stderr: io.Discard}}
	require.ErrorIs(t, a.Approve(ctx, "It", "?", ""), context.Canceled)
}

// A last line without its end is an answer too: printf yes | locktree apply.
func TestApprovalWithoutLineEnd(t *testing.T) {
	a := app{terminal: terminal{stdin: strings.NewReader("yes"), stderr: io.Discard}}
	require.NoError(t, a.Approve(t.Context(), "It", "?", ""))
	a.stdin = strings.NewReader("yes, of course")
	require.Equal(t, exit.Failed, exit.Code(a.Approve(t.Context(), "It", "?", "")))
	a.stdin = strings.NewReader("")
	err := a.Approve(t.Context(), "It", "?", "")
	require.ErrorContains(t, err, "EOF")
	require.ErrorContains(t, err, `Answer "yes" there, or add -auto-approve.`, "what saves no plan advised to apply a saved one")
}
