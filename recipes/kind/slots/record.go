package slots

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Record is the data of a job's record node: the last slots that were started, and their outcome. A program writes the whole
// record, on condition that the node still has the version that was read. So of several programs that start a slot, only one
// succeeds.
type Record struct {
	// Forgotten is the greatest slot that is no longer recorded; "" if there is none.
	Forgotten string `json:"forgotten,omitempty"`
	// Since is when the record began, in milliseconds since 1970 by the servers' clock; 0 means: when its node was created. A
	// record that is copied to a new node has Since set, see [CarryRecord].
	Since int64 `json:"since,omitempty"`
	// Slots are the recorded slots, sorted.
	Slots []Run `json:"slots,omitempty"`
}

// State is the outcome of a slot.
type State string

// The states of a recorded slot.
const (
	Running   State = "running"   // the slot was started, and nothing was recorded since: its client runs it, or has died
	Succeeded State = "succeeded" // the run ended without an error
	Failed    State = "failed"    // the run ended with an error
	Skipped   State = "skipped"   // a person has skipped the slot
)

// Run is a recorded slot, with its last start.
type Run struct {
	Slot  string `json:"slot"`
	State State  `json:"state"`
	By    string `json:"by,omitempty"`           // the name of the client that started or skipped the slot
	Token uint64 `json:"token,omitempty,string"` // the fencing token of the start
	Tries int    `json:"tries,omitempty"`        // how often the slot was started
	// Started is when the slot was started or skipped, by that client's clock, in milliseconds since 1970.
	Started int64 `json:"started,omitempty"`
	// Took is how long the run took, in milliseconds.
	Took int64 `json:"took,omitempty"`
	// Result is the error of a run that failed, shortened.
	Result string `json:"result,omitempty"`
}

// The longest texts of a record, in bytes of JSON: 500 slots must fit into a node.
const (
	maxSlotBy     = 128
	maxSlotResult = 256
)

// Begun is Started as a time.
func (r Run) Begun() time.Time { return time.UnixMilli(r.Started).UTC() }

// Duration is Took as a duration.
func (r Run) Duration() time.Duration { return time.Duration(r.Took) * time.Millisecond }

// ParseRecord reads the data of a record node. No data is an empty record.
func ParseRecord(data []byte) (*Record, error) {
	r := &Record{}
	if len(data) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("the record of slots is damaged: %w", err)
	}
	if !slices.IsSortedFunc(r.Slots, compareSlots) {
		return nil, fmt.Errorf("the record of slots is damaged: its slots are not sorted")
	}
	return r, nil
}

// Encode is the inverse of [ParseRecord].
func (r *Record) Encode() []byte {
	return plainJSON(r)
}

// plainJSON encodes v, which has only strings and numbers, without HTML's escapes, because each escape takes six bytes.
func plainJSON(v any) []byte {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	_ = to.Encode(v) // encoding strings and numbers cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// CarryRecord returns the data of a record for a new node. The parameter created is the time of the old node's creation, in milliseconds
// since 1970. A damaged record stays as it is.
func CarryRecord(data []byte, created int64) []byte {
	r, err := ParseRecord(data)
	if err != nil || r.Since != 0 {
		return data
	}
	r.Since = created
	return r.Encode()
}

// From is the time when slots begin to count: the later of the declaration of their schedule and the beginning of the record. The
// parameter created is the time when the record's node was created.
func (r *Record) From(declared, created time.Time) time.Time {
	if r.Since != 0 {
		created = time.UnixMilli(r.Since)
	}
	if created.After(declared) {
		return created
	}
	return declared
}

func compareSlots(a, b Run) int { return strings.Compare(a.Slot, b.Slot) }

func (r *Record) search(slot string) (int, bool) {
	return slices.BinarySearchFunc(r.Slots, Run{Slot: slot}, compareSlots)
}

// Run returns the entry of a slot in the record; nil if there is none.
func (r *Record) Run(slot string) *Run {
	if i, ok := r.search(slot); ok {
		return &r.Slots[i]
	}
	return nil
}

// Rules are the parts of a job's declaration about its slots.
type Rules struct {
	Schedule     *Schedule     // nil if programs name the slots, or its time zone is unknown here
	Late         time.Duration // how long after its instant a slot may still be started
	Keep         int           // how many slots the record lists one by one
	UntilSuccess bool          // true: a slot is started again until a run has succeeded; false: it is started once
}

// Verdict says whether a slot may be started.
type Verdict int

// The verdicts.
const (
	Open      Verdict = iota // the holder of the job's lock may start the slot
	Taken                    // the slot was started, with success = "start"; or a run has succeeded
	Skip                     // a person skipped the slot
	Forgotten                // the slot sorts before the recorded slots, so nothing is known of it
)

// Judge says whether the holder of the job's lock may start a slot.
func (r *Record) Judge(slot string, p Rules) Verdict {
	run := r.Run(slot)
	switch {
	case run != nil && run.State == Skipped:
		return Skip
	case run != nil && (run.State == Succeeded || !p.UntilSuccess):
		return Taken
	case run != nil:
		return Open
	case slot <= r.Forgotten && r.Forgotten != "", len(r.Slots) >= p.Keep && slot < r.Slots[0].Slot:
		return Forgotten
	}
	return Open
}

// Put returns the record with one more entry, or with a new entry of the same slot. At most keep slots remain: Put forgets the
// slots that sort first.
func (r *Record) Put(run Run, keep int) *Record {
	run.By, run.Result = shortText(run.By, maxSlotBy), shortText(run.Result, maxSlotResult)
	next := *r
	next.Slots = slices.Clone(r.Slots)
	if i, ok := next.search(run.Slot); ok {
		next.Slots[i] = run
	} else {
		next.Slots = slices.Insert(next.Slots, i, run)
	}
	if over := len(next.Slots) - keep; over > 0 {
		next.Forgotten = max(next.Forgotten, next.Slots[over-1].Slot)
		next.Slots = slices.Delete(next.Slots, 0, over)
	}
	return &next
}

// shortText is s, cut where its JSON would be longer than limit bytes.
func shortText(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	size, room := 0, 0
	for i, r := range s {
		if size <= limit-len("...") {
			room = i
		}
		if size += len(plainJSON(string(r))) - len(`""`); size > limit {
			return s[:room] + "..."
		}
	}
	return s
}

// Outlook is the state of a job for people, and for a program that waits for its next slot.
type Outlook struct {
	Last   *Run        // the greatest slot that was started; nil if none is recorded
	Next   time.Time   // the next instant of the schedule that was not skipped; zero if there is none
	Due    []time.Time // slots that may be started now, in order; with success = "end" also slots whose run failed or died
	Missed []time.Time // slots that were due, in order; it is too late to start them
}

// Look is the outlook at moment. Slots count after origin, see [Record.From]. The parameter holder is the token of the job's
// holder, or 0 if there is none. The slot that the holder runs is not due.
func (r *Record) Look(p Rules, origin, moment time.Time, holder uint64) Outlook {
	s := Outlook{}
	for i := len(r.Slots) - 1; i >= 0 && s.Last == nil; i-- {
		if r.Slots[i].State != Skipped {
			s.Last = &r.Slots[i]
		}
	}
	if p.Schedule == nil {
		return s
	}
	s.Next = r.nextSlot(p, moment)
	at := p.Schedule.Prev(moment)
	for n := 0; n < p.Keep && at.After(origin); n++ {
		slot := At(at)
		verdict := r.Judge(slot, p)
		if verdict == Forgotten {
			break
		}
		run := r.Run(slot)
		switch {
		case verdict != Open, run != nil && holder != 0 && run.Token == holder:
		case moment.Sub(at) <= p.Late:
			s.Due = append(s.Due, at)
		default:
			s.Missed = append(s.Missed, at)
		}
		at = p.Schedule.Prev(at.Add(-time.Minute))
	}
	slices.Reverse(s.Due)
	slices.Reverse(s.Missed)
	return s
}

// nextSlot is the first slot after moment that is to be run.
func (r *Record) nextSlot(p Rules, moment time.Time) time.Time {
	// No slot before the slot least may be started, and there may be very many: do not look at them.
	least := r.Forgotten
	if len(r.Slots) >= p.Keep {
		least = max(least, r.Slots[0].Slot)
	}
	if at, ok := Time(least); ok && at.After(moment) {
		moment = at.Add(-1)
	}
	at := p.Schedule.Next(moment)
	for !at.IsZero() && r.Judge(At(at), p) != Open {
		at = p.Schedule.Next(at)
	}
	return at
}
