//go:build !linux

package clock

import "time"

// startTime carries both of Go's clocks' readings at the start of the process.
var startTime = time.Now()

// sleepSinceStart is how far the wall clock ran ahead of the monotonic clock. Outside Linux the standard library gives
// no other sign of a suspended machine. A date set forward looks like sleep and shortens leases once; a date set back
// is ignored.
func sleepSinceStart(now time.Time) time.Duration {
	return max(0, now.Round(0).Sub(startTime.Round(0))-now.Sub(startTime))
}
