//go:build linux

package claims

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
)

// holder is a process that holds a lock, or waits for it.
type holder struct {
	cmd   *exec.Cmd
	says  chan line
	wrote lock.Tail // as errors
}

var errLate = errors.New("late")

type line struct {
	verb  string
	rest  string
	token uint64
}

func hold(argv []string) (*holder, error) {
	h := &holder{cmd: exec.Command(argv[0], argv[1:]...), says: make(chan line, 1<<16)}
	h.cmd.Stderr = &h.wrote
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if _, err := h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.says)
		for s := bufio.NewScanner(out); s.Scan(); {
			var l line
			verb, rest, _ := strings.Cut(s.Text(), " ")
			l.verb, l.rest = verb, rest
			_, _ = fmt.Sscanf(rest, "token=%d", &l.token) // 0 where there is none
			h.says <- l
		}
	}()
	return h, nil
}

// await skips what it says until one of the verbs.
func (h *holder) await(patience time.Duration, verbs ...string) (line, error) {
	limit := time.After(patience)
	for {
		select {
		case l, ok := <-h.says:
			if !ok {
				_ = h.cmd.Wait() // then all it wrote is there
				return l, fmt.Errorf("its process ended before it said %s: %s", strings.Join(verbs, " or "), &h.wrote)
			}
			if slices.Contains(verbs, l.verb) {
				return l, nil
			}
		case <-limit:
			return line{}, fmt.Errorf("%w: no %s within %v", errLate, strings.Join(verbs, " or "), patience.Round(time.Millisecond))
		}
	}
}

func (h *holder) drain() {
	for {
		select {
		case <-h.says:
		default:
			return
		}
	}
}

// end ends it, paused or not, with what it has started: that would hold on to what we read to the end.
func (h *holder) end() {
	_ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL) // its group is its own
	_ = h.cmd.Wait()
}
