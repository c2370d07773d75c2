//go:build !linux

package clock

import "time"

// started carries both of Go's clocks' readings at the start of the process.
var started = time.Now()

// slept is how far the wall clock ran ahead of the monotonic one. Outside Linux the standard library gives no other sign of
// a suspended machine. A date set forward looks like sleep and shortens leases once; a date set back is ignored.
func slept(now time.Time) time.Duration {
	return max(0, now.Round(0).Sub(started.Round(0))-now.Sub(started))
}
