package kind

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind/slots"
)

// 02:30 in Berlin: clocks go forward from 02:00 to 03:00 on the last Sunday of March, and back from 03:00 to 02:00 on that of October.
func TestHalfPastTwoOnBothNightsOfTheYear(t *testing.T) {
	s, err := slots.ParseSchedule("30 2 * * *", "Europe/Berlin")
	require.NoError(t, err)
	next := func(after string) string {
		at, ok := slots.Time(after)
		require.True(t, ok)
		return slots.At(s.Next(at))
	}
	require.Equal(t, "2026-03-28T01:30:00Z", next("2026-03-28T00:00:00Z"))
	require.Equal(t, "2026-03-30T00:30:00Z", next("2026-03-28T01:30:00Z"), "there is no 02:30 on 29 March")
	require.Equal(t, "2026-10-25T00:30:00Z", next("2026-10-24T00:30:00Z"), "by summer time")
	require.Equal(t, "2026-10-25T01:30:00Z", next("2026-10-25T00:30:00Z"), "and again by winter time: two slots")
	require.Equal(t, "2026-10-26T01:30:00Z", next("2026-10-25T01:30:00Z"))
}

func TestAnUnknownTimeZoneIsRefusedWhenItIsUsed(t *testing.T) {
	for _, zone := range []string{"Local", "Europe/Berlim", "../etc/passwd"} {
		_, err := slots.ParseSchedule("0 3 * * *", zone)
		require.ErrorIs(t, err, slots.ErrUnknownZone, zone)
	}
	p := Once.New().(*OnceParams)
	p.Schedule, p.Timezone = "0 3 * * *", "Nowhere/AtAll"
	require.NoError(t, Validate(p), "another machine may know it: a tool that only reads must be able to")
	_, err := p.Times()
	require.ErrorIs(t, err, slots.ErrUnknownZone)
	require.ErrorIs(t, p.CheckSlot("2026-01-01T03:00:00Z"), slots.ErrUnknownZone)
}

func TestOnlyTheCanonicalFormIsRead(t *testing.T) {
	for _, text := range []string{"", "0 3 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "0,0 * * * *", "5,3 * * * *", "1-3 * * * *", "* * * * 7", "03 * * * *", "* *  * *", "* * 1,2, * *", "*/2 * * * *",
		"0 9 */2 * *", "0 9 */1 * 1", "0 9 */40 * 1", "0 9 */ * 1", "0 9 * * */2", "0 9 */02 * 1"} {
		_, err := slots.ParseSchedule(text, "")
		require.Error(t, err, text)
	}
	p := Once.New().(*OnceParams)
	schedule := slices.IndexFunc(p.Fields(), func(f Field) bool { return f.Name == "schedule" })
	require.Error(t, p.Fields()[schedule].Set("*/5 * * * *"))
	p.CatchUp = "1h"
	require.ErrorContains(t, Validate(p), "is about a schedule")
}

func TestSlotsOfASchedule(t *testing.T) {
	p := &OnceParams{Schedule: "0 3 * * *", Timezone: "Europe/Berlin", Keep: 3}
	require.NoError(t, p.CheckSlot("2026-11-26T02:00:00Z"))
	require.ErrorContains(t, p.CheckSlot("2026-11-26T03:00:00Z"), "it has 2026-11-26T02:00:00Z before that and 2026-11-27T02:00:00Z after it")
	require.ErrorContains(t, p.CheckSlot("2026-11-26T03:00:00+01:00"), "no instant in UTC")
	p = &OnceParams{Keep: 3}
	require.NoError(t, p.CheckSlot("batch-00017"))
	for _, bad := range []string{"", strings.Repeat("x", 129), "a\nb", "\xff"} {
		require.Error(t, p.CheckSlot(bad))
	}
}
func TestSlotsCountSinceTheirScheduleWasDeclaredAndTheRecordBegan(t *testing.T) {
	at := time.UnixMilli
	require.Equal(t, at(7), (&slots.Record{}).From(at(5), at(7)))
	require.Equal(t, at(7), (&slots.Record{}).From(at(7), at(5)))
	r, err := slots.ParseRecord(slots.CarryRecord(slots.CarryRecord(nil, 3), 9))
	require.NoError(t, err)
	require.Equal(t, at(5), r.From(at(5), at(9)), "it went along to a node that was created later")
	require.Equal(t, "damaged", string(slots.CarryRecord([]byte("damaged"), 3)))

	live := &Payload{Params: &OnceParams{Schedule: "0 * * * *", Keep: 30, Success: SuccessStart}}
	live.Read(100)
	data, err := live.Encode()
	require.NoError(t, err)
	live, err = Decode(data)
	require.NoError(t, err)
	live.Read(200)
	require.EqualValues(t, 100, live.Since)
	for _, c := range []struct {
		next Params
		want int64
	}{
		{&OnceParams{Schedule: "0 * * * *", Keep: 7}, 100},
		{&OnceParams{Schedule: "1 * * * *"}, 0},
		{&OnceParams{Schedule: "0 * * * *", Timezone: "Europe/Berlin"}, 0},
		{Mutex.New(), 0},
	} {
		next := &Payload{Params: c.next}
		next.Carry(live)
		require.Equal(t, c.want, next.Since, "%v", c.next)
	}
	mutex := &Payload{Params: Mutex.New()}
	mutex.Read(100)
	require.Zero(t, mutex.Since)
}

// A schedule that never comes had the slot 0001-01-01T00:00:00Z.
func TestAScheduleThatNeverComesHasNoSlot(t *testing.T) {
	p := &OnceParams{Schedule: "0 3 31 2 *", Keep: 30}
	times, err := p.Times()
	require.NoError(t, err)
	require.True(t, times.Never())
	require.False(t, times.Has(time.Date(-1, time.May, 1, 0, 0, 0, 0, time.UTC)), "a zone has no beginning; the search once stood still there")
	require.False(t, times.Has(time.Time{}))
	require.ErrorContains(t, p.CheckSlot(slots.At(time.Time{})), `the schedule "0 3 31 2 *" never comes`)
}

func TestTheRecordsAccessList(t *testing.T) {
	list := List{{Scheme: "x", ID: "app", Perms: PermCreate | PermRead | PermDelete}, {Scheme: "x", ID: "eye", Perms: PermRead}, {Scheme: "x", ID: "ops", Perms: PermAll}}
	require.Equal(t, list, Once.PartACL("other", list))
	require.Equal(t, List{{Scheme: "x", ID: "app", Perms: PermRead | PermWrite}, list[1], list[2]}, Once.PartACL("once-record", list))
	require.Equal(t, list, Semaphore.PartACL("leases", list))
}
