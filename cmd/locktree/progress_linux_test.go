package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

// aScreen is a terminal, and what a program wrote to it. It is made outside of fake time, which would not pass while it is read.
type aScreen struct {
	tty  *os.File
	text func() string // closes the terminal
}

func newScreen(t *testing.T) aScreen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	var all strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&all, master) // it ends with an error when the other end is closed
	}()
	return aScreen{tty, func() string {
		require.NoError(t, tty.Close())
		<-read
		require.NoError(t, master.Close())
		return strings.ReplaceAll(all.String(), "\r\n", "\n")
	}}
}

// An apply of 100,000 locks was silent for seconds, and then printed 200,000 lines.
func TestLongWorkOnATerminalShowsHowFarItIs(t *testing.T) {
	screens := []aScreen{newScreen(t), newScreen(t), newScreen(t)}
	inFakeTime(t, `
locals {
  keys = toset([for i in range(300) : tostring(i)])
}
mutex "shard" {
  for_each = local.keys
  acl      = acl.open
}
`, func(t *testing.T, b *bench) {
		slow := func(op string, n int) {
			b.server.Inject(func(r zktest.Request) bool { return r.Op == op && r.N == n }, zktest.Delay(2500*time.Millisecond))
		}
		on := func(args ...string) string {
			s := screens[0]
			screens = screens[1:]
			code := b.app(strings.NewReader(""), s.tty, s.tty, "NO_COLOR=1").run(t.Context(), append([]string{"-chdir=" + b.dir}, args...))
			said := s.text()
			require.Zero(t, code, said)
			return said
		}
		slow("multi", 1)
		said := on("apply", "-auto-approve")
		require.Contains(t, said, "  # mutex.shard will be created, 300 times\n")
		require.Contains(t, said, "mutex.shard: Creation complete after 0s, 300 times\n")
		require.Contains(t, said, `Applying to ensemble "main": 0 of 1 transactions`+"\r\x1b[K")
		require.Contains(t, said, "Apply complete! Resources: 300 added, 0 changed, 0 destroyed.")
		require.Less(t, strings.Count(said, "\n"), 60, said)

		slow("getData", 150)
		said = on("plan", "-destroy", "-full")
		require.Regexp(t, regexp.MustCompile(`Reading ensemble "main": \d+ of \d{3} nodes(, about \d+s left)?`+"\r\x1b"), said)
		require.Equal(t, 300, strings.Count(said, "will be destroyed\n"))

		slow("multi", 1)
		said = on("destroy", "-auto-approve", "-allow-mass-destroy")
		require.Contains(t, said, "mutex.shard: Destruction complete after ")
		require.NotContains(t, said, `mutex.shard["7"]: Destr`)
	})
}

// A program that reads messages gets the progress, and a file gets none.
func TestLongWorkWithoutATerminal(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.server.Inject(func(r zktest.Request) bool { return r.Op == "sync" && r.N == 1 }, zktest.Delay(2500*time.Millisecond))
		stdout, _ := b.run(exit.OK, "plan", "-json")
		require.Equal(t, 2, strings.Count(stdout, `"type":"progress"`), stdout)
		require.Contains(t, stdout, `"@message":"Reading ensemble \"main\": `)
		require.Contains(t, stdout, `"progress":{"done":0,"elapsed_ms":2000,`)
		b.server.Inject(func(r zktest.Request) bool { return r.Op == "sync" && r.N == 1 }, zktest.Delay(2500*time.Millisecond))
		stdout, stderr := b.run(exit.OK, "plan")
		require.NotContains(t, stdout+stderr, "Reading")
	})
}
