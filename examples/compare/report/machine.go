//go:build linux

package report

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine is where the figures were taken, and what else it was doing.
type Machine struct {
	CPU    string        `json:"cpu"`
	Cores  int           `json:"cores"`
	Kernel string        `json:"kernel"`
	Go     string        `json:"go"`
	Sync   time.Duration `json:"fsync_ns"` // of 512 bytes
	Load   float64       `json:"load"`     // processes that wanted a processor in the minute before the run
}

// Here describes this machine.
func Here(sync time.Duration) Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Sync: sync}
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			m.CPU = strings.TrimLeft(strings.TrimSpace(name), ": ")
			break
		}
	}
	release, _, _ := strings.Cut(strings.TrimSpace(read("/proc/sys/kernel/osrelease")), "-") // what follows is somebody's own name for it
	m.Kernel = release
	_, _ = fmt.Sscan(read("/proc/loadavg"), &m.Load) // 0 where it cannot be read
	return m
}

func read(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}

// busy: the figures are of a machine that had something else to do.
func (m Machine) busy() bool { return m.Load > 0.25*float64(m.Cores) }

func (m Machine) write(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores, Linux %s, %s. Synchronising 512 bytes to its disk takes %v (median).\n",
		cmp.Or(m.CPU, "Unknown processor"), m.Cores, m.Kernel, m.Go, m.Sync.Round(time.Microsecond))
	if m.busy() {
		fmt.Fprintf(w, "\n**On average, %.1f processes were runnable in the minute before this run: its speeds are rough. Do not quote them.**\n", m.Load)
	}
}
