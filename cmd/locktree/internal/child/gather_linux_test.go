package child

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that has been told to stop, and is not stopped yet, may be about to start another. Kill ended before that one was listed.
func TestKillWaitsForThoseThatDoNotStandYet(t *testing.T) {
	p, err := Start(exec.Command("sleep", "1000"))
	require.NoError(t, err)
	defer p.Kill()
	p.gather()
	require.True(t, p.gather(), "it runs")
	p.Signal(syscall.SIGSTOP)
	require.Eventually(t, func() bool { return !p.gather() }, time.Minute, time.Millisecond, "it stands")
}
