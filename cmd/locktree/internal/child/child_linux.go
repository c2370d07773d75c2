package child

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs makes Linux kill the command when this process dies, because the lock ends with our session.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// gather notes processes that the command has started and that are in other groups, as processes under timeout(1) in a script are.
// It returns true if it found new processes, or if a process of the command still runs. It does not notice processes that left our
// session, as daemons do.
//
// It has to run before any process is ended: afterwards nothing shows which process started the others.
func (p *Process) gather() (more bool) {
	all, ours := processes(), map[int]bool{}
	select {
	case <-p.done: // another process may have its number by now
	default:
		ours[p.cmd.Process.Pid] = true
	}
	session, _ := unix.Getsid(0)
	for grown := true; grown; {
		grown = false
		for _, q := range all {
			if q.session != session || ours[q.pid] || !ours[q.parent] && q.group != p.cmd.Process.Pid && p.scattered[q.pid] != q.started {
				continue
			}
			ours[q.pid], grown = true, true
			if q.group != p.cmd.Process.Pid && p.scattered[q.pid] != q.started {
				if p.scattered == nil {
					p.scattered = map[int]string{}
				}
				p.scattered[q.pid], more = q.started, true
			}
		}
	}
	return more || slices.ContainsFunc(all, func(q process) bool { return ours[q.pid] && q.runs })
}

// signalScattered sends a signal to the processes that gather noted, as far as these are still the same processes.
func (p *Process) signalScattered(s syscall.Signal) {
	for pid, started := range p.scattered {
		if q, ok := processOf(strconv.Itoa(pid)); ok && q.started == started {
			_ = syscall.Kill(pid, s)
		}
	}
}

// process is what Linux tells about a process, see proc_pid_stat(5).
type process struct {
	pid, parent, group, session int
	runs                        bool   // it is neither stopped nor dead
	started                     string // in ticks since the machine started; tells apart processes with the same number
}

func processes() (all []process) {
	names, _ := filepath.Glob("/proc/[0-9]*") // its only error is a bad pattern
	for _, name := range names {
		if q, ok := processOf(filepath.Base(name)); ok {
			all = append(all, q)
		}
	}
	return all
}

func processOf(pid string) (process, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, found := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ") // a name may contain anything
	f := strings.Fields(rest)
	if err != nil || !found || len(f) < 20 {
		return process{}, false // the process has ended
	}
	number := func(text string) int {
		n, _ := strconv.Atoi(text)
		return n
	}
	return process{pid: number(pid), parent: number(f[1]), group: number(f[2]), session: number(f[3]),
		runs: !strings.Contains("TtZX", f[0]), started: f[19]}, true
}
