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
