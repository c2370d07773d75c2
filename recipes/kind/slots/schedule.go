// Package slots says when a job is due, and which of its slots were started.
//
//	schedule, err := slots.ParseSchedule("0 3 * * *", "Europe/Berlin")
//	record, err := slots.ParseRecord(data)
//	outlook := record.Look(rules, since, now, holder)
//
// A [Schedule] is a set of instants, by cron's rules in a time zone. A [Record] is the data of a job's record node: the last slots, and
// what came of them. [Rules] come from the job's declaration. The package reads no clock and no node.
package slots

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Schedule is a set of instants. The wall-clock time of each instant in a zone matches five sets: minutes, hours, days of the
// month, months and days of the week.
//
// When a zone puts its clock forward, the times that it skips are no instants, so nothing is due then. When it puts the clock back, a time
// that it shows twice is two instants.
type Schedule struct {
	minute, hour, day, month, weekday uint64
	// starDay says whether the day of the month is "*" or a step over it, and starWeekday says so of the weekday. If at least one
	// of them is true, a day must match both fields; otherwise it must match one. Cron does the same.
	starDay, starWeekday bool
	zone                 *time.Location
}

// Zone is the time zone of the schedule's clock.
func (s *Schedule) Zone() *time.Location { return s.zone }

// The fields of a schedule, in the order of cron.
var scheduleFields = [5]struct {
	name   string
	lo, hi int
}{{"minute", 0, 59}, {"hour", 0, 23}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 6}}

// star is the bit of a field that is "*" in cron, or begins with "*".
const star = uint64(1) << 63

// steps are the values of a field with a step over "*".
func steps(i, by int) (set uint64) {
	for n := scheduleFields[i].lo; n <= scheduleFields[i].hi; n += by {
		set |= 1 << n
	}
	return set
}

// ScheduleText is the canonical form of a schedule. It has five fields as in cron, each "*" or its values in ascending order with
// commas between them, such as "0 3 * * 1,2,3,4,5". A field of days may be a step, such as "*/2", if the other field of days is
// not "*". Only then does cron treat a step differently from a list of the same values. Bit n of a field stands for the value n,
// and the highest bit for "*" or a step over it.
func ScheduleText(fields [5]uint64) string {
	var text [5]string
	for i, f := range scheduleFields {
		all := steps(i, 1)
		set := fields[i] & all
		day := i == 2 || i == 4
		// If neither field of days begins with "*", cron needs only one of them to match. So a list of all values must not be written as
		// "*".
		if set == all && (fields[i]&star != 0 || !day) {
			text[i] = "*"
			continue
		}
		if other := 6 - i; day && fields[i]&star != 0 && fields[other] != star|steps(other, 1) {
			for by := 2; by <= f.hi-f.lo+1; by++ {
				if steps(i, by) == set {
					text[i] = "*/" + strconv.Itoa(by)
				}
			}
			if text[i] != "" {
				continue
			}
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
	return &Schedule{fields[0], fields[1], fields[2], fields[3], fields[4], fields[2]&star != 0, fields[4]&star != 0, at}, nil
}

// ErrUnknownZone: the machine's time zone database has no zone of that name.
var ErrUnknownZone = errors.New("unknown time zone")

// Zone finds a time zone of the IANA database by its name; "" is UTC. "Local" is an error, because it differs from machine to machine.
func Zone(name string) (*time.Location, error) {
	at, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%w %q: it must be a name of the IANA database, such as Europe/Berlin, and the machine must have that database (package tzdata)", ErrUnknownZone, name)
	}
	return at, nil
}

// CheckSchedule says what is wrong with the canonical form of a schedule; nil if nothing is.
func CheckSchedule(text string) error {
	_, err := parseScheduleText(text)
	return err
}

func parseScheduleText(text string) (fields [5]uint64, err error) {
	parts := strings.Split(text, " ")
	if len(parts) != len(fields) {
		return fields, fmt.Errorf("%q has %d fields: a schedule has five (minute, hour, day of the month, month, day of the week)", text, len(parts))
	}
	for i, f := range scheduleFields {
		if parts[i] == "*" {
			parts[i] = "*/1"
		}
		if by, stepped := strings.CutPrefix(parts[i], "*/"); stepped {
			n, err := strconv.Atoi(by)
			if err != nil || n < 1 || n > f.hi-f.lo+1 {
				return fields, fmt.Errorf("%q of %q is no step: it must be a number from 1 to %d", by, text, f.hi-f.lo+1)
			}
			fields[i] = star | steps(i, n)
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

// searchSpan is how far Next and Prev look. The rarest day, a Sunday 29 February, comes at least every forty years, also around 2100.
const searchSpan = 41 * 366 * 24 * time.Hour

// Next is the first instant of the schedule after t, in UTC; the zero time if there is none in the next forty years.
func (s *Schedule) Next(t time.Time) time.Time {
	return s.seek(t.Truncate(time.Minute).Add(time.Minute), 1)
}

// Prev is the last instant of the schedule that is not after t, in UTC; the zero time if there was none in the last forty years.
func (s *Schedule) Prev(t time.Time) time.Time { return s.seek(t.Truncate(time.Minute), -1) }

// Has reports whether t is an instant of the schedule.
func (s *Schedule) Has(t time.Time) bool { return !t.IsZero() && s.Prev(t).Equal(t) }

// Never reports whether the schedule has no instant, such as the 30th of February.
func (s *Schedule) Never() bool { return s.Next(time.Unix(0, 0)).IsZero() }

// quarterHour divides the UTC offset of every time zone since 1972.
const quarterHour = 15 * time.Minute

// seek finds the instant of the schedule that is nearest to t, a whole minute, in one direction of time.
func (s *Schedule) seek(t time.Time, way int) time.Time {
	for start := t; t.Sub(start).Abs() < searchSpan; {
		local := t.In(s.zone)
		switch {
		case s.month>>local.Month()&1 == 0, !s.onDay(local):
			t = nextDay(local, way)
		case s.hour>>local.Hour()&1 == 0:
			t = nextQuarter(t, way)
		case s.minute>>local.Minute()&1 == 0:
			t = t.Add(time.Duration(way) * time.Minute)
		default:
			return t.UTC()
		}
	}
	return time.Time{}
}

func (s *Schedule) onDay(local time.Time) bool {
	day, weekday := s.day>>local.Day()&1 == 1, s.weekday>>local.Weekday()&1 == 1
	if s.starDay || s.starWeekday {
		return day && weekday
	}
	return day || weekday
}

// nextQuarter is the first minute of the next quarter of an hour, or the last one of the quarter before.
func nextQuarter(t time.Time, way int) time.Time {
	if way > 0 {
		return t.Truncate(quarterHour).Add(quarterHour)
	}
	return t.Truncate(quarterHour).Add(-time.Minute)
}

// nextDay is the first minute of the day after local, or the last one of the day before. Where the zone changes its clock,
// nextDay stops there: the clock may go back over midnight, or skip a day. On the last day of a leap year,
// Go may give a next change that is before local (golang/go#81583).
func nextDay(local time.Time, way int) time.Time {
	hour, minute, second := local.Clock()
	start := local.Add(-time.Duration(hour*3600+minute*60+second) * time.Second)
	began, changes := local.ZoneBounds()
	if way < 0 {
		if !began.IsZero() && began.After(start) {
			start = began
		}
		return start.Add(-1).Truncate(time.Minute)
	}
	end := start.Add(24 * time.Hour)
	if changes.After(local) && changes.Before(end) {
		end = changes
	}
	return end.Add(time.Minute - 1).Truncate(time.Minute)
}

// slotLayout makes names of instants sort by time.
const slotLayout = "2006-01-02T15:04:05Z"

// At is the name of the slot of a schedule at an instant, such as "2026-11-26T02:00:00Z".
func At(t time.Time) string { return t.UTC().Format(slotLayout) }

// Time is the inverse of [At]. It reports false for a slot that is not the name of an instant.
func Time(slot string) (time.Time, bool) {
	t, err := time.Parse(slotLayout, slot)
	return t, err == nil && At(t) == slot
}

// MaxName bounds the name of a slot, in bytes.
const MaxName = 128
