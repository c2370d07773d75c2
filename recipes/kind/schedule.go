package kind

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Schedule says at which instants something is due: those whose wall clock in a time zone is in five sets, of minutes, hours, days of
// the month, months and days of the week.
//
// A wall clock that a zone skips when it is put forward is no instant, so nothing is due then; one that a zone shows twice when the
// clock is put back is two.
type Schedule struct {
	minute, hour, day, month, weekday uint64
	anyDay, anyWeekday                bool // "*": then the other one decides alone, else either one does
	zone                              *time.Location
}

// The fields of a schedule, in the order of cron.
var scheduleFields = [5]struct {
	name   string
	lo, hi int
}{{"minute", 0, 59}, {"hour", 0, 23}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 6}}

// ScheduleText is the canonical form of a schedule: five fields as in cron, each "*" or its values in ascending order with commas
// between them, such as "0 3 * * 1,2,3,4,5". Bit n of a field stands for the value n, and the highest bit for "*".
func ScheduleText(fields [5]uint64) string {
	var text [5]string
	for i, f := range scheduleFields {
		all := uint64(1)<<(f.hi+1) - uint64(1)<<f.lo
		set := fields[i] & all
		// Days are different: where both are restricted, either one suffices, and a list of all is a restriction.
		if fields[i]>>63 == 1 || set == all && (i < 2 || i == 3) {
			text[i] = "*"
			continue
		}
		var values []string
		for ; set != 0; set &= set - 1 {
			values = append(values, strconv.Itoa(bits.TrailingZeros64(set)))
		}
		text[i] = strings.Join(values, ",")
	}
	return strings.Join(text[:], " ")
}

// ParseSchedule reads the canonical form. The error of a zone that this machine does not know matches [ErrUnknownZone].
func ParseSchedule(text, zone string) (*Schedule, error) {
	fields, err := parseScheduleText(text)
	if err != nil {
		return nil, err
	}
	at, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	return &Schedule{fields[0], fields[1], fields[2], fields[3], fields[4], fields[2]>>63 == 1, fields[4]>>63 == 1, at}, nil
}

// ErrUnknownZone: the machine's time zone database has no zone of that name.
var ErrUnknownZone = errors.New("unknown time zone")

// Zone finds a time zone of the IANA database by its name; "" is UTC. "Local" is none: it is another one on each machine.
func Zone(name string) (*time.Location, error) {
	at, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%w %q: it must be a name of the IANA database, such as Europe/Berlin, and the machine must have that database (package tzdata)", ErrUnknownZone, name)
	}
	return at, nil
}

func parseScheduleText(text string) (fields [5]uint64, err error) {
	parts := strings.Split(text, " ")
	if len(parts) != len(fields) {
		return fields, fmt.Errorf("%q has %d fields: a schedule has five (minute, hour, day of the month, month, day of the week)", text, len(parts))
	}
	for i, f := range scheduleFields {
		if parts[i] == "*" {
			fields[i] = 1<<63 | (uint64(1)<<(f.hi+1) - uint64(1)<<f.lo)
			continue
		}
		for _, v := range strings.Split(parts[i], ",") {
			n, err := strconv.Atoi(v)
			if err != nil || n < f.lo || n > f.hi {
				return fields, fmt.Errorf("%q of %q is no %s: it must be * or numbers from %d to %d", v, text, f.name, f.lo, f.hi)
			}
			fields[i] |= 1 << n
		}
	}
	if ScheduleText(fields) != text {
		return fields, fmt.Errorf("%q is not in canonical form, which is %q", text, ScheduleText(fields))
	}
	return fields, nil
}

// farthest is how far Next and Prev look: at least one 29 February is that near, also around a year like 2100.
const farthest = 9 * 366 * 24 * time.Hour

// Next is the first instant of the schedule after t, in UTC; the zero time if there is none in the next nine years.
func (s *Schedule) Next(t time.Time) time.Time {
	return s.seek(t.Truncate(time.Minute).Add(time.Minute), 1)
}

// Prev is the last instant of the schedule that is not after t, in UTC; the zero time if there was none in the last nine years.
func (s *Schedule) Prev(t time.Time) time.Time { return s.seek(t.Truncate(time.Minute), -1) }

// Has reports whether t is an instant of the schedule.
func (s *Schedule) Has(t time.Time) bool { return s.Prev(t).Equal(t) }

// quarter: the offsets of zones are multiples of it (those of local mean times were not, before schedules).
const quarter = 15 * time.Minute

// seek finds the instant of the schedule that is nearest to t, a whole minute, in one direction of time.
func (s *Schedule) seek(t time.Time, way int) time.Time {
	for start := t; t.Sub(start).Abs() < farthest; {
		at := t.In(s.zone)
		switch {
		case s.month>>at.Month()&1 == 0, !s.onDay(at):
			t = nextDay(t, at, way)
		case s.hour>>at.Hour()&1 == 0:
			t = nextQuarter(t, way)
		case s.minute>>at.Minute()&1 == 0:
			t = t.Add(time.Duration(way) * time.Minute)
		default:
			return t.UTC()
		}
	}
	return time.Time{}
}

func (s *Schedule) onDay(at time.Time) bool {
	day, weekday := s.day>>at.Day()&1 == 1, s.weekday>>at.Weekday()&1 == 1
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// nextQuarter is the first minute of the next quarter of an hour, or the last one of the quarter before.
func nextQuarter(t time.Time, way int) time.Time {
	if way > 0 {
		return t.Truncate(quarter).Add(quarter)
	}
	return t.Truncate(quarter).Add(-time.Minute)
}

// nextDay goes on to where the day of at is nearly over. No zone puts its clock on or back by three hours, so nothing is passed over.
func nextDay(t, at time.Time, way int) time.Time {
	y, m, d := at.Date()
	if way > 0 {
		if near := time.Date(y, m, d+1, 0, 0, 0, 0, at.Location()).Add(-3 * time.Hour); near.After(t) {
			return near
		}
	} else if near := time.Date(y, m, d, 0, 0, 0, 0, at.Location()).Add(3 * time.Hour); near.Before(t) {
		return near
	}
	return nextQuarter(t, way)
}
