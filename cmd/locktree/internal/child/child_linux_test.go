package child_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
)

// hanging is how long anything here may take before it is taken to hang.
const hanging = 3 * time.Minute

// asTypist makes the test binary a program that runs a command on its terminal.
const asTypist = "LOCKTREE_TEST_TYPIST"

func TestMain(m *testing.M) {
	if os.Getenv(asTypist) != "" {
		os.Exit(typist())
	}
	// exec does the same, to pass SIGHUP on. A process that ignores it from the beginning, as under nohup, hands that down. Then a process
	// that Kill has stopped goes on for a moment when its parent dies: see the package documentation.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

func typist() int {
	cmd := exec.Command("sh", "-c", `read line; echo "read $line"; kill -TSTP $$; echo went on`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	p, err := child.Start(cmd)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-p.Done()
	// A process that is not in the foreground would be stopped here.
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf("then read %s%v\n", line, err)
	return p.Code()
}

// A process group of its own may read from the terminal only as the foreground group. A command that is stopped from the terminal would
// hold its lock for good.
func TestACommandReadsWhatIsTyped(t *testing.T) {
	screen, name := openTerminal(t)
	tty, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asTypist+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	_, err = io.WriteString(screen, "one\ntwo\n")
	require.NoError(t, err)
	hangs := time.AfterFunc(hanging, func() { _ = cmd.Process.Kill() }) // and its command with it
	text, _ := io.ReadAll(screen)                                       // ends with EIO when no process has the terminal any more
	require.NoError(t, cmd.Wait(), "%s", text)
	hangs.Stop()
	for _, line := range []string{"read one", "went on", "then read two"} {
		require.Contains(t, strings.ReplaceAll(string(text), "\r", ""), line+"\n")
	}
}

// openTerminal makes a terminal, and returns its other end and its name.
func openTerminal(t *testing.T) (screen *os.File, name string) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	return screen, fmt.Sprintf("/dev/pts/%d", n)
}

// Processes that a shell leaves behind are still in its group. timeout(1) in a script, and a shell with job control, make groups of their
// own. A process in one went on working after the lock was lost, and after exec had ended.
func TestKillReachesAllThatTheCommandStarted(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		first  func(p *child.Process) // before it is killed
	}{
		"timeout":                {`timeout 1000 sh -c 'echo up; sleep 1000'; true`, func(*child.Process) {}},
		"job control":            {`set -m; sh -c 'echo up; sleep 1000' & wait`, func(*child.Process) {}},
		"that ignores SIGTERM":   {`timeout 1000 sh -c 'trap "" TERM; echo up; while :; do sleep 1; done'; true`, (*child.Process).Stop},
		"one within the other":   {`timeout 1000 timeout 1000 sh -c 'echo up; sleep 1000'; true`, func(*child.Process) {}},
		"left by who started it": {`timeout 1000 sh -c 'trap "" TERM; echo up; sleep 1000; sleep 1000' & sleep 1000`, func(p *child.Process) { p.Stop(); <-p.Done() }},
		"left in the group":      {`sleep 1000 & echo up`, func(p *child.Process) { <-p.Done() }},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			cmd := exec.Command("bash", "-c", c.script)
			cmd.Stdout = w
			p, err := child.Start(cmd)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			require.NoError(t, r.SetReadDeadline(time.Now().Add(hanging)))
			lines := bufio.NewReader(r)
			_, err = lines.ReadString('\n')
			require.NoError(t, err)
			c.first(p)
			p.Kill()
			rest, err := io.ReadAll(lines) // as long as a process can write
			require.NoError(t, err)
			require.Empty(t, rest)
			<-p.Done()
		})
	}
}
