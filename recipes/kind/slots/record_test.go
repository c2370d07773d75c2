package slots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARecordForgetsTheLeastSlotsAndRefusesThem(t *testing.T) {
	p := Rules{Keep: 3}
	r := &Record{}
	for _, slot := range []string{"d", "b", "f"} {
		require.Equal(t, Open, r.Judge(slot, p))
		r = r.Put(Run{Slot: slot, State: Running}, p.Keep)
		require.Equal(t, Taken, r.Judge(slot, p))
	}
	require.Equal(t, Forgotten, r.Judge("a", p), "it would be forgotten at once")
	require.Equal(t, Open, r.Judge("c", p))
	r = r.Put(Run{Slot: "e"}, p.Keep)
	require.Equal(t, "b", r.Forgotten)
	require.Equal(t, Forgotten, r.Judge("b", p))
	r = r.Put(Run{Slot: "g"}, 2)
	require.Equal(t, "e", r.Forgotten, "keep was lowered")
	require.Equal(t, Forgotten, r.Judge("e", p))
	require.Equal(t, Forgotten, r.Judge("c", p))
	again, err := ParseRecord(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, again)
}

func TestWhatCountsAsTaken(t *testing.T) {
	for _, c := range []struct {
		state        State
		untilSuccess bool
		want         Verdict
	}{
		{Running, false, Taken}, {Running, true, Open},
		{Failed, false, Taken}, {Failed, true, Open},
		{Succeeded, false, Taken}, {Succeeded, true, Taken},
		{Skipped, false, Skip}, {Skipped, true, Skip},
	} {
		r := (&Record{}).Put(Run{Slot: "s", State: c.state}, 5)
		require.Equal(t, c.want, r.Judge("s", Rules{Keep: 5, UntilSuccess: c.untilSuccess}), "%v", c)
	}
}

func TestTheLargestRecordFitsIntoANode(t *testing.T) {
	r := &Record{}
	for i := range 501 {
		r = r.Put(Run{Slot: fmt.Sprintf("%03d", i) + strings.Repeat(`"`, MaxName-3), State: Succeeded, By: strings.Repeat("<", 200), Token: 1<<64 - 1, Tries: 1e9,
			Started: 1 << 53, Took: 1 << 53, Result: strings.Repeat("<", 300)}, 500)
	}
	require.Len(t, r.Slots, 500)
	require.Less(t, len(r.Encode()), 1<<20-8<<10)
	again, err := ParseRecord(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, again)
	for _, c := range "<>&\x01\"\u2028é" { // some take six bytes in JSON, some only in JSON for HTML
		text := strings.Repeat(string(c), 400)
		run := (&Record{}).Put(Run{By: text, Result: text}, 1).Slots[0]
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
	schedule := func(text string) *Schedule {
		s, err := ParseSchedule(text, "")
		require.NoError(t, err)
		return s
	}
	p := Rules{Schedule: schedule("0 * * * *"), Late: 2 * time.Hour, Keep: 10, UntilSuccess: true}
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
	look := func(now string, holder uint64) Outlook {
		return r.Look(p, at("01:30"), at(now), holder)
	}
	require.Empty(t, look("01:59", 0).Due, "none is from before the declaration")
	s := look("05:10", 0)
	require.Equal(t, []string{"04", "05"}, names(s.Due))
	require.Equal(t, []string{"02", "03"}, names(s.Missed))
	require.Equal(t, at("06:00"), s.Next)
	require.Nil(t, s.Last)

	r = r.Put(Run{Slot: At(at("03:00")), State: Skipped}, 10)
	r = r.Put(Run{Slot: At(at("04:00")), State: Failed, Token: 7}, 10)
	r = r.Put(Run{Slot: At(at("05:00")), State: Running, Token: 9}, 10)
	s = look("05:10", 9)
	require.Equal(t, []string{"04"}, names(s.Due), "somebody runs 05; that of 04 has failed")
	require.Equal(t, []string{"02"}, names(s.Missed))
	require.Equal(t, uint64(9), s.Last.Token)
	require.Equal(t, []string{"04", "05"}, names(look("05:10", 0).Due), "its holder has died")

	skipped := r.Put(Run{Slot: At(at("08:00")), State: Skipped}, 10)
	s = skipped.Look(p, at("01:30"), at("07:10"), 0)
	require.Equal(t, at("09:00"), s.Next, "somebody has skipped 08")
	q := p
	q.Keep, q.Schedule = 1, schedule("* * * * *") // a slot of the far future is skipped, so that the four thousand million before it are forgotten
	far := &Record{Slots: []Run{{Slot: "9990-01-01T00:00:00Z", State: Skipped}}}
	s = far.Look(q, at("01:30"), at("07:10"), 0)
	require.Equal(t, "9990-01-01T00:01:00Z", At(s.Next))

	q = p
	q.Schedule = schedule("30 * * * *")
	s = r.Look(q, at("05:00"), at("06:10"), 0)
	require.Equal(t, []string{"05"}, names(s.Due), "another schedule counts from its declaration on")
	require.Empty(t, s.Missed)
}
