//go:build linux

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time that a process has used, with all its threads, to the nanosecond.
func CPU(pid int) (time.Duration, error) {
	var t unix.Timespec
	// What clock_getcpuclockid(3) makes of a process id; the kernel's CPUCLOCK_SCHED is 2.
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Usage is what a server has counted and used at a moment.
type Usage struct {
	At     time.Time
	Counts Counts
	CPU    time.Duration
}

// Use reads the counts first, so that answering is not in the time of a window that begins here.
func Use(s Server) (u Usage, err error) {
	if u.Counts, err = s.Counts(); err != nil {
		return u, err
	}
	u.At = time.Now()
	u.CPU, err = cpuOf(s)
	return u, err
}

// Since is what has been used since an earlier moment. Nothing of it is the cost of asking.
func Since(s Server, from Usage) (u Usage, took time.Duration, err error) {
	if u.CPU, err = cpuOf(s); err != nil {
		return u, 0, err
	}
	u.At = time.Now()
	took = u.At.Sub(from.At)
	u.CPU -= from.CPU
	now, err := s.Counts()
	if err != nil {
		return u, took, err
	}
	u.Counts = Between(s, from.Counts, now)
	return u, took, nil
}

// Between is what was counted from one look at the counts to another, without the second look.
func Between(s Server, from, to Counts) Counts {
	c := Counts{to.Requests - from.Requests, to.Events - from.Events}
	if a, ok := s.(interface{ asking() int64 }); ok {
		c.Requests -= a.asking()
	}
	if to.Requests < 0 {
		c.Requests = -1
	}
	if to.Events < 0 {
		c.Events = -1
	}
	return c
}

func cpuOf(s Server) (sum time.Duration, err error) {
	for _, pid := range s.Pids() {
		used, err := CPU(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// Sync measures what it costs to make 512 bytes durable here: the median of a hundred.
func Sync() (time.Duration, error) {
	dir, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var took []time.Duration
	for range 100 {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
