package slots

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAScheduleMissesNoInstantWhereAClockGoesBackOverMidnightOrSkipsADay(t *testing.T) {
	for _, c := range []struct {
		text, zone        string
		before, due, past string
	}{
		// At 02:00 of 5 March 2010 Casey's clock went back to 23:00.
		{"30 23 4 * *", "Antarctica/Casey", "2010-03-04T13:30:00Z", "2010-03-04T15:30:00Z", "2010-03-04T16:30:00Z"},
		{"30 0 5 * *", "Antarctica/Casey", "2010-03-04T13:00:00Z", "2010-03-04T13:30:00Z", "2010-03-04T15:59:00Z"},
		// Samoa had no 30 December 2011.
		{"0 0 31 12 *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T12:00:00Z"},
		{"59 23 29 12 *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-30T09:59:00Z", "2011-12-31T12:00:00Z"},
	} {
		s, err := ParseSchedule(c.text, c.zone)
		require.NoError(t, err)
		at := func(slot string) time.Time {
			x, ok := Time(slot)
			require.True(t, ok)
			return x
		}
		require.Equal(t, c.due, At(s.Next(at(c.before))), "%s in %s: the next after %s", c.text, c.zone, c.before)
		require.Equal(t, c.due, At(s.Prev(at(c.past))), "%s in %s: the last before %s", c.text, c.zone, c.past)
	}
}

func TestASearchForTheNextInstantPassesTheEndOfALeapYear(t *testing.T) { // it never ended
	s, err := ParseSchedule("0 3 1 * *", "Europe/Berlin")
	require.NoError(t, err)
	require.Equal(t, "2041-01-01T02:00:00Z", At(s.Next(time.Date(2040, 12, 31, 3, 0, 0, 0, time.UTC))))
}
