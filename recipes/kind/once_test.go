package kind

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 02:30 in Berlin: the clock is put on from 02:00 to 03:00 on the last Sunday of March, and back from 03:00 to 02:00 on that of October.
func TestHalfPastTwoOnBothNightsOfTheYear(t *testing.T) {
	s, err := ParseSchedule("30 2 * * *", "Europe/Berlin")
	require.NoError(t, err)
	next := func(after string) string {
		at, ok := SlotTime(after)
		require.True(t, ok)
		return SlotAt(s.Next(at))
	}
	require.Equal(t, "2026-03-28T01:30:00Z", next("2026-03-28T00:00:00Z"))
	require.Equal(t, "2026-03-30T00:30:00Z", next("2026-03-28T01:30:00Z"), "there is no 02:30 on 29 March")
	require.Equal(t, "2026-10-25T00:30:00Z", next("2026-10-24T00:30:00Z"), "by summer time")
	require.Equal(t, "2026-10-25T01:30:00Z", next("2026-10-25T00:30:00Z"), "and again by winter time: two slots")
	require.Equal(t, "2026-10-26T01:30:00Z", next("2026-10-25T01:30:00Z"))
}

func TestZones(t *testing.T) {
	for _, zone := range []string{"Local", "Europe/Berlim", "../etc/passwd"} {
		_, err := ParseSchedule("0 3 * * *", zone)
		require.ErrorIs(t, err, ErrUnknownZone, zone)
	}
	p := Once.New().(*OnceParams)
	p.Schedule, p.Timezone = "0 3 * * *", "Nowhere/AtAll"
	require.NoError(t, Validate(p), "another machine may know it: a tool that only reads must be able to")
	_, err := p.Times()
	require.ErrorIs(t, err, ErrUnknownZone)
	require.ErrorIs(t, p.CheckSlot("2026-01-01T03:00:00Z"), ErrUnknownZone)
}

func TestOnlyTheCanonicalFormIsRead(t *testing.T) {
	for _, text := range []string{"", "0 3 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "0,0 * * * *", "5,3 * * * *", "1-3 * * * *", "* * * * 7", "03 * * * *", "* *  * *", "* * 1,2, * *", "*/2 * * * *",
		"0 9 */2 * *", "0 9 */1 * 1", "0 9 */40 * 1", "0 9 */ * 1", "0 9 * * */2", "0 9 */02 * 1"} {
		_, err := ParseSchedule(text, "")
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

func TestARecordForgetsTheLeastSlotsAndRefusesThem(t *testing.T) {
	p := &OnceParams{Keep: 3, Success: SuccessStart}
	r := &Record{}
	for _, slot := range []string{"d", "b", "f"} {
		require.Equal(t, SlotOpen, r.Judge(slot, p))
		r = r.Put(SlotRun{Slot: slot, State: SlotRunning}, p.Keep)
		require.Equal(t, SlotTaken, r.Judge(slot, p))
	}
	require.Equal(t, SlotForgotten, r.Judge("a", p), "it would be forgotten at once")
	require.Equal(t, SlotOpen, r.Judge("c", p))
	r = r.Put(SlotRun{Slot: "e"}, p.Keep)
	require.Equal(t, "b", r.Forgotten)
	require.Equal(t, SlotForgotten, r.Judge("b", p))
	r = r.Put(SlotRun{Slot: "g"}, 2)
	require.Equal(t, "e", r.Forgotten, "keep was lowered")
	require.Equal(t, SlotForgotten, r.Judge("e", p))
	require.Equal(t, SlotForgotten, r.Judge("c", p))
	again, err := ParseRecord(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, again)
}

func TestWhatCountsAsTaken(t *testing.T) {
	for _, c := range []struct {
		state   SlotState
		success string
		want    SlotVerdict
	}{
		{SlotRunning, SuccessStart, SlotTaken}, {SlotRunning, SuccessEnd, SlotOpen},
		{SlotFailed, SuccessStart, SlotTaken}, {SlotFailed, SuccessEnd, SlotOpen},
		{SlotSucceeded, SuccessStart, SlotTaken}, {SlotSucceeded, SuccessEnd, SlotTaken},
		{SlotSkipped, SuccessStart, SlotSkip}, {SlotSkipped, SuccessEnd, SlotSkip},
	} {
		r := (&Record{}).Put(SlotRun{Slot: "s", State: c.state}, 5)
		require.Equal(t, c.want, r.Judge("s", &OnceParams{Keep: 5, Success: c.success}), "%v", c)
	}
}

func TestTheLargestRecordFitsIntoANode(t *testing.T) {
	r := &Record{}
	for i := range 501 {
		r = r.Put(SlotRun{Slot: fmt.Sprintf("%03d", i) + strings.Repeat(`"`, MaxSlot-3), State: SlotSucceeded, By: strings.Repeat("\x01", 200), Token: 1<<64 - 1, Tries: 1e9,
			Started: 1 << 53, Took: 1 << 53, Result: strings.Repeat("\u2028", 300)}, 500)
	}
	require.Len(t, r.Slots, 500)
	require.Less(t, len(r.Encode()), 1<<20-8<<10)
	again, err := ParseRecord(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, again)
	for _, c := range "<>&\x01\"\u2028é" { // some take six bytes in JSON, some do only for HTML
		text := strings.Repeat(string(c), 400)
		run := (&Record{}).Put(SlotRun{By: text, Result: text}, 1).Slots[0]
		for _, s := range []struct {
			is   string
			most int
		}{{run.By, maxSlotBy}, {run.Result, maxSlotResult}} {
			require.InDelta(t, s.most, len(plainJSON(s.is))-len(`""`), 8, "%q", c)
			require.LessOrEqual(t, len(plainJSON(s.is))-len(`""`), s.most, "%q", c)
			require.True(t, strings.HasSuffix(s.is, "..."))
		}
	}
	for _, damaged := range []string{"x", `{"slots":[{"slot":"b"},{"slot":"a"}]}`, `[]`} {
		_, err := ParseRecord([]byte(damaged))
		require.Error(t, err)
	}
}

func TestDueAndMissed(t *testing.T) {
	p := &OnceParams{Schedule: "0 * * * *", CatchUp: "2h", Keep: 10, Success: SuccessEnd}
	at := func(clock string) time.Time {
		v, err := time.Parse("15:04", clock)
		require.NoError(t, err)
		return v.AddDate(2026, 0, 0)
	}
	names := func(all []time.Time) (out []string) {
		for _, t := range all {
			out = append(out, t.Format("15"))
		}
		return out
	}
	r := &Record{}
	look := func(now string, holder uint64) Slots {
		s, err := r.Look(p, at("01:30"), at(now), holder)
		require.NoError(t, err)
		return s
	}
	require.Empty(t, look("01:59", 0).Due, "none is from before the declaration")
	s := look("05:10", 0)
	require.Equal(t, []string{"04", "05"}, names(s.Due))
	require.Equal(t, []string{"02", "03"}, names(s.Missed))
	require.Equal(t, at("06:00"), s.Next)
	require.Nil(t, s.Last)

	r = r.Put(SlotRun{Slot: SlotAt(at("03:00")), State: SlotSkipped}, 10)
	r = r.Put(SlotRun{Slot: SlotAt(at("04:00")), State: SlotFailed, Token: 7}, 10)
	r = r.Put(SlotRun{Slot: SlotAt(at("05:00")), State: SlotRunning, Token: 9}, 10)
	s = look("05:10", 9)
	require.Equal(t, []string{"04"}, names(s.Due), "somebody runs 05; that of 04 has failed")
	require.Equal(t, []string{"02"}, names(s.Missed))
	require.Equal(t, uint64(9), s.Last.Token)
	require.Equal(t, []string{"04", "05"}, names(look("05:10", 0).Due), "its holder has died")

	skipped := r.Put(SlotRun{Slot: SlotAt(at("08:00")), State: SlotSkipped}, 10)
	s, err := skipped.Look(p, at("01:30"), at("07:10"), 0)
	require.NoError(t, err)
	require.Equal(t, at("09:00"), s.Next, "somebody has skipped 08")
	q := *p
	q.Keep, q.Schedule = 1, "* * * * *" // a slot of the far future is skipped, so that the four thousand million before it are forgotten
	far := &Record{Slots: []SlotRun{{Slot: "9990-01-01T00:00:00Z", State: SlotSkipped}}}
	s, err = far.Look(&q, at("01:30"), at("07:10"), 0)
	require.NoError(t, err)
	require.Equal(t, "9990-01-01T00:01:00Z", SlotAt(s.Next))

	q = *p
	q.Schedule = "30 * * * *"
	s, err = r.Look(&q, at("05:00"), at("06:10"), 0)
	require.NoError(t, err)
	require.Equal(t, []string{"05"}, names(s.Due), "another schedule counts from its declaration on")
	require.Empty(t, s.Missed)
}

func TestSlotsCountSinceTheirScheduleWasDeclaredAndTheRecordBegan(t *testing.T) {
	at := time.UnixMilli
	require.Equal(t, at(7), (&Record{}).From(at(5), at(7)))
	require.Equal(t, at(7), (&Record{}).From(at(7), at(5)))
	r, err := ParseRecord(CarryRecord(CarryRecord(nil, 3), 9))
	require.NoError(t, err)
	require.Equal(t, at(5), r.From(at(5), at(9)), "it went along to a node that was created later")
	require.Equal(t, "damaged", string(CarryRecord([]byte("damaged"), 3)))

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
	require.False(t, times.Has(time.Time{}))
	require.ErrorContains(t, p.CheckSlot(SlotAt(time.Time{})), `the schedule "0 3 31 2 *" never comes`)
}

func TestTheRecordsAccessList(t *testing.T) {
	list := List{{Scheme: "x", ID: "app", Perms: PermCreate | PermRead | PermDelete}, {Scheme: "x", ID: "eye", Perms: PermRead}, {Scheme: "x", ID: "ops", Perms: PermAll}}
	require.Equal(t, list, Once.PartACL("other", list))
	require.Equal(t, List{{Scheme: "x", ID: "app", Perms: PermRead | PermWrite}, list[1], list[2]}, Once.PartACL("once-record", list))
	require.Equal(t, list, Semaphore.PartACL("leases", list))
}
