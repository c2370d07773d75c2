package forms

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/locktree/locktree/recipes/kind"
)

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Schedule reads a schedule as cron writes it, and returns the form that is kept in a node.
func Schedule(text string) (string, error) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return "", errors.New("has a time zone in it: set timezone instead")
	}
	parsed, err := cronParser.Parse(text)
	if err != nil {
		return "", fmt.Errorf(`%q is not a schedule (%w): write five fields as in cron (minute, hour, day of the month, month, day of the week, where 0 is Sunday), such as "0 3 * * MON-FRI", or @daily`, text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return "", fmt.Errorf("%q has no instants that all machines agree on, because it counts from when a program begins: write five fields, such as \"*/10 * * * *\"", text)
	}
	canonical := kind.ScheduleText([5]uint64{spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow})
	if times, err := kind.ParseSchedule(canonical, ""); err != nil || times.Next(time.Unix(0, 0)).IsZero() {
		return "", fmt.Errorf("%q is never due: no month that it names has such a day", text)
	}
	return canonical, nil
}
