package forms

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"

	"github.com/locktree/locktree/recipes/kind/slots"
)

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Schedule reads a schedule as cron writes it, and returns the form that is kept in a node.
func Schedule(text string) (string, error) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return "", errors.New("has a time zone in it: set timezone instead")
	}
	fields := strings.Fields(text)
	if len(fields) == 5 {
		fields[4] = sundays(fields[4])
	}
	parsed, err := cronParser.Parse(strings.Join(fields, " "))
	if err != nil {
		return "", fmt.Errorf(`%q is not a schedule (%w): write five fields as in cron (minute, hour, day of the month, month, day of the week, where 0 and 7 are Sunday), such as "0 3 * * MON-FRI", or @daily`, text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return "", fmt.Errorf("%q has no instants that all machines agree on, because it counts from when a program begins: write five fields, such as \"*/10 * * * *\"", text)
	}
	// In cron, days that begin with a star are not restricted, also if a step follows: then both fields of days must match.
	sets := [5]uint64{spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow}
	for _, i := range []int{2, 4} {
		if len(fields) == 5 && strings.HasPrefix(fields[i], "*") {
			sets[i] |= 1 << 63
		}
	}
	canonical := slots.ScheduleText(sets)
	if days := strings.Fields(canonical); (sets[2]|sets[4])>>63 == 1 && !strings.Contains(days[2]+days[4], "*") {
		return "", fmt.Errorf("%q can be read in two ways: that both fields of days must match, as in cron, because one begins with *, or that either suffices; write that field without *, or as one step such as */2", text)
	}
	if times, err := slots.ParseSchedule(canonical, ""); err != nil || times.Never() {
		return "", fmt.Errorf("%q is never due: no month that it names has such a day", text)
	}
	return canonical, nil
}

// sundays writes Sunday as 0 where a field of weekdays has it as 7.
func sundays(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		span, by, stepped := strings.Cut(part, "/")
		from, to, _ := strings.Cut(span, "-")
		step, err := 1, error(nil)
		if stepped {
			step, err = strconv.Atoi(by)
		}
		first, wrong := strconv.Atoi(from)
		switch {
		case part == "7":
			parts[i] = "0"
		case to != "7" || err != nil || wrong != nil || step < 1 || first < 0 || first > 7:
		default:
			var days []string
			for day := first; day <= 7; day += step {
				days = append(days, strconv.Itoa(day%7))
			}
			parts[i] = strings.Join(days, ",")
		}
	}
	return strings.Join(parts, ",")
}
