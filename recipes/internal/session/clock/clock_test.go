package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The numbers are those of the comment at the constants.
func TestTheTimesOfASessionLeaveEachOtherRoom(t *testing.T) {
	for inequality, holds := range map[string]bool{
		"1: clocks may differ by a sixteenth":        Chain <= wholeTimeout-wholeTimeout/16,
		"1: half of the longest tick":                Report >= wholeTimeout/4/2,
		"2: heartbeats in time keep the whole lease": Lease+Report+Beat+Spacing <= Chain,
		"3: an answer before the doubt":              Beat < Doubt,
		"3: another server can commit":               Doubt+Beat <= Lease,
		"4: ten passes":                              10*Spacing <= Lease-Beat,
		"5: two pings":                               2*Ping <= Silent,
		"6: a pause and a pass":                      Silent+2*Respite <= Idle && Idle < wholeTimeout,
	} {
		require.True(t, holds, inequality)
	}
}

func TestFractionsOfATimeoutAreExact(t *testing.T) {
	for of, want := range map[Fraction]time.Duration{Lease: 2 * time.Second, Silent: 4 * time.Second * 2 / 3, Idle: 3500 * time.Millisecond,
		Chain: 3750 * time.Millisecond, Spacing: 125 * time.Millisecond} {
		require.Equal(t, want, of.Of(4*time.Second))
	}
}
