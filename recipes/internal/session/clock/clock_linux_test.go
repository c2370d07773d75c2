package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASleepIsLookedForOnlyWhereTheClocksHaveParted(t *testing.T) {
	last := reading{wall: time.Hour, monotonic: time.Minute, slept: time.Second}
	for _, c := range []struct {
		wall, monotonic time.Duration
		parted          bool
	}{
		{0, 0, false},
		{time.Hour, time.Hour, false},
		{time.Hour + time.Millisecond, time.Hour, false},
		{time.Hour + nap, time.Hour, true}, // a sleep, or a date set forward
		{-time.Hour, time.Second, true},    // a date set back
	} {
		r := reading{wall: last.wall + c.wall, monotonic: last.monotonic + c.monotonic}
		require.Equal(t, c.parted, r.driftedFrom(last), "%+v", c)
	}
	before := measureSleep()
	require.InDelta(t, before, sleepSinceStart(time.Now()), float64(nap))
}
