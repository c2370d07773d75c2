package screen

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
)

// The precedence of the colour switches, on a stream that is no terminal.
func TestSwitchesOfColourTakePrecedenceInOrder(t *testing.T) {
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
			term := Screen{Env: c.env, NoColor: c.flag}
			require.Equal(t, c.want, term.Color(&strings.Builder{}))
		})
	}
}

// An unanswered question must not outlive the interrupt.
func TestApprovalEndsWithTheInterrupt(t *testing.T) {
	never, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := Screen{Stdin: never, Stderr: io.Discard}
	require.ErrorIs(t, s.Approve(ctx, "It", "?", ""), context.Canceled)
}

// A last line without its end is an answer too: printf yes | locktree apply.
func TestApprovalWithoutLineEnd(t *testing.T) {
	s := Screen{Stdin: strings.NewReader("yes"), Stderr: io.Discard}
	require.NoError(t, s.Approve(t.Context(), "It", "?", ""))
	s.Stdin = strings.NewReader("yes, of course")
	require.Equal(t, exit.Failed, exit.Code(s.Approve(t.Context(), "It", "?", "")))
	s.Stdin = strings.NewReader("")
	err := s.Approve(t.Context(), "It", "?", "")
	require.ErrorContains(t, err, "EOF")
	require.ErrorContains(t, err, `Answer "yes" there, or add -auto-approve.`, "what saves no plan advised to apply a saved one")
}

// heldUp is a stream that accepts writes only after free is closed.
type heldUp struct {
	strings.Builder
	free chan struct{}
}

func (h *heldUp) Write(b []byte) (int, error) {
	<-h.free
	return h.Builder.Write(b)
}

// Another goroutine writes the answer to an interrupt while the command runs. Formerly, the answer was lost if the command ended at once.
func TestInterruptIsAnsweredBeforeTheCommandEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		stderr := &heldUp{free: make(chan struct{})}
		s := &Screen{Stdout: &strings.Builder{}, Stderr: stderr}
		stop, ended := s.Interruptible(ctx), make(chan struct{})
		interrupt()
		go func() {
			defer close(ended)
			stop()
		}()
		synctest.Wait()
		select {
		case <-ended:
			require.Fail(t, "the command ended, and nothing was said")
		default:
		}
		close(stderr.free)
		<-ended
		require.Contains(t, stderr.String(), "Interrupt received.")

		s.Interruptible(t.Context())() // it does not wait for an interrupt that does not come
	})
}
