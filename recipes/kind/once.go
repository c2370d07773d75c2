package kind

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes/kind/slots"
)

// Once is the kind of a job that runs once for each slot: an instant of a schedule, or a name that a program gives. Its queue is
// like a mutex's: the holder runs the job. The data of its child "once-record" say which slots were run, see [slots.Record].
var Once = &Kind{
	Name:     "once",
	Doc:      "A job that runs once for each slot: an instant of its schedule, or a name that programs give.",
	Children: []string{onceRecord},
	Record:   onceRecord,
	Queues: []Queue{{
		Admit: firstHolds, Marked: true,
		Exclusive: map[string]string{WireCurator: "lock-"},
	}},
	New: func() Params { return applyDefaults(&OnceParams{}) },
}

func init() { register(Once) }

const onceRecord = "once-record"

// The values of OnceParams.Success.
const (
	SuccessStart = "start"
	SuccessEnd   = "end"
)

// OnceParams are the parameters of a job that runs once.
type OnceParams struct {
	Common
	// Schedule is the canonical form of a schedule ([slots.ScheduleText]); "" if programs name the slots.
	Schedule string
	// Timezone is the zone of the schedule's clock, by its name in the IANA database; "" is UTC.
	Timezone string
	// CatchUp is how long after its instant a slot may still be started, such as "6h"; "" means an hour. It does not bound a slot that
	// the program names.
	CatchUp string
	// Keep is how many slots the record lists one by one.
	Keep int
	// Success is [SuccessStart]: a slot is started at most once; or [SuccessEnd]: it is started until one run has succeeded.
	Success string
}

// Kind and Fields implement [Params].
func (*OnceParams) Kind() *Kind       { return Once }
func (p *OnceParams) Fields() []Field { return bind(onceTable, p) }

var onceTable = append(commonTable(WireCurator),
	parameter{Name: "schedule", at: func(p Params) any { return &p.(*OnceParams).Schedule }, Default: "", Cron: true, rule: slots.CheckSchedule,
		Doc: `When the job is due, as in cron: "0 3 * * *" is at three each night. If it is left out, programs name the slots.`},
	parameter{Name: "timezone", at: func(p Params) any { return &p.(*OnceParams).Timezone }, Default: "", Zone: true, rule: checkPrintable,
		Doc: `The zone of the schedule's clock, such as "Europe/Berlin"; UTC if it is left out.`},
	parameter{Name: "catch_up", at: func(p Params) any { return &p.(*OnceParams).CatchUp }, Default: "", rule: checkDuration,
		Doc: `How long after its instant a slot may still be started, such as "6h"; an hour if it is left out. It does not bound a slot that a program names.`},
	parameter{Name: "keep", at: func(p Params) any { return &p.(*OnceParams).Keep }, Number: true, Default: 30, Min: 1, Max: 500,
		Doc: "How many slots the record lists. A slot that sorts before them is refused."},
	parameter{Name: "success", at: func(p Params) any { return &p.(*OnceParams).Success }, Default: SuccessStart, OneOf: []string{SuccessStart, SuccessEnd},
		Doc: "What counts: start, so that a slot is started at most once; or end, so that a run that fails or dies is tried again."},
)

// check finds errors that involve several parameters.
func (p *OnceParams) check() error {
	for name, v := range map[string]string{"timezone": p.Timezone, "catch_up": p.CatchUp} {
		if p.Schedule == "" && v != "" {
			return &ParamError{name, errors.New("is about a schedule: declare one, or remove it")}
		}
	}
	return nil
}

// Late is CatchUp as a duration.
func (p *OnceParams) Late() time.Duration {
	if d := stated(p.CatchUp); d > 0 {
		return d
	}
	return time.Hour
}

// Times is the schedule; nil if programs name the slots. The error matches [slots.ErrUnknownZone] where this machine lacks the zone.
func (p *OnceParams) Times() (*slots.Schedule, error) {
	if p.Schedule == "" {
		return nil, nil
	}
	return slots.ParseSchedule(p.Schedule, p.Timezone)
}

// Rules are the rules for slots in the parameters. If Times fails, Rules returns its error, and the rules of a job without a schedule.
func (p *OnceParams) Rules() (slots.Rules, error) {
	times, err := p.Times()
	return slots.Rules{Schedule: times, Late: p.Late(), Keep: p.Keep, UntilSuccess: p.Success == SuccessEnd}, err
}

// calendar says which instants are slots.
func (p *OnceParams) calendar() string { return p.Schedule + " " + p.Timezone }

// CheckSlot says why the job cannot have this slot; nil if it can have it.
func (p *OnceParams) CheckSlot(slot string) error {
	times, err := p.Times()
	switch {
	case err != nil:
		return err
	case times == nil && (slot == "" || len(slot) > slots.MaxName || !utf8.ValidString(slot)):
		return fmt.Errorf("a slot has a name of 1 to %d bytes of UTF-8", slots.MaxName)
	case times == nil:
		return checkPrintable(slot)
	case times.Never():
		return fmt.Errorf("the schedule %q never comes", p.Schedule)
	}
	at, ok := slots.Time(slot)
	if !ok {
		return fmt.Errorf("%q is no instant in UTC, such as %s", slot, slots.At(times.Next(time.Unix(0, 0))))
	}
	if !times.Has(at) {
		return fmt.Errorf("%s is not in the schedule %q (%s): it has %s before that and %s after it", slot, p.Schedule, times.Zone(), slots.At(times.Prev(at)), slots.At(times.Next(at)))
	}
	return nil
}
