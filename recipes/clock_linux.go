package recipes

import (
	"syscall"
	"time"
	"unsafe"
)

// slept is CLOCK_BOOTTIME minus CLOCK_MONOTONIC: the time this machine has been suspended since it started. Neither
// clock follows the wall clock, so setting the date changes nothing.
func slept() time.Duration {
	const monotonic, boottime = 1, 7
	var best time.Duration
	// The thread may be preempted between the readings, which looks like sleep: the shortest of three is taken.
	for i := range 3 {
		mono, ok1 := gettime(monotonic)
		boot, ok2 := gettime(boottime)
		if !ok1 || !ok2 {
			return 0
		}
		if d := boot - mono; i == 0 || d < best {
			best = d
		}
	}
	return best
}

func gettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
