package clock

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// startTime is the origin of readings.
var startTime = time.Now()

// reading is one look at the clocks: wall and monotonic as Go reads them, without a system call, and the sleep known then.
type reading struct{ wall, monotonic, slept time.Duration }

// newestReading is the newest reading that took system calls.
var newestReading atomic.Pointer[reading]

// sleepSinceStart is CLOCK_BOOTTIME minus CLOCK_MONOTONIC: the time this machine has been suspended since it started. Neither
// clock follows the wall clock, so setting the date changes nothing. When the kernel counts a sleep, it moves the wall clock and
// CLOCK_BOOTTIME by the same amount. While the wall clock and the monotonic clock have not drifted apart since the last
// measurement, that measurement is still right. Then no system call is made.
func sleepSinceStart(now time.Time) time.Duration {
	r := reading{wall: now.Round(0).Sub(startTime.Round(0)), monotonic: now.Sub(startTime)}
	if last := newestReading.Load(); last != nil && !r.driftedFrom(*last) {
		return last.slept
	}
	kept := r // a copy on the heap: most calls return above, and their r stays on the stack
	kept.slept = measureSleep()
	newestReading.Store(&kept)
	return kept.slept
}

// driftedFrom reports whether one clock has moved by more than the other since base. Differences too small to matter add up until
// they are noticed.
func (r reading) driftedFrom(base reading) bool {
	apart := (r.wall - base.wall) - (r.monotonic - base.monotonic)
	return apart >= nap/2 || apart <= -nap/2
}

// measureSleep asks the kernel.
func measureSleep() time.Duration {
	const monotonic, boottime = 1, 7
	var gap time.Duration
	// A thread preempted between the readings sees what looks like sleep: then they are taken again.
	for range 3 {
		before, ok1 := gettime(monotonic)
		boot, ok2 := gettime(boottime)
		after, ok3 := gettime(monotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0
		}
		if gap = boot - before; after-before < time.Millisecond {
			break
		}
	}
	return gap
}

func gettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
