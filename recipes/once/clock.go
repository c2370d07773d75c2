package once

import "time"

// How long each function can wait, and for what. The delay stagger is at most a second, and recheck is a minute.
//
//   - await: for the next slot by this client's clock, and then for the delay stagger. It looks at the clock again after recheck.
//   - start, attempt: for a slot that is not due yet by the ensemble's clock. They look at everything again after recheck + stagger.
//   - standBy: for a change of the record, for min(recheck, catch_up/8) + stagger.
//   - lock: for the job's lock, as long as others run. A slot that is too old by then is refused by inTime.
//   - retry.Tries: its pauses double, up to 1 s, or 5 s in Run.
//   - note: for the write of the result, for a session timeout at most.
//
// How exact each comparison of times is:
//
//   - Before its write, begin calls the methods untilStart and inTime, with a past time of the ensemble. So no slot starts more
//     than 30 s early (maxEarly), and no slot that is in time is refused. A slot that is too old may pass.
//   - begin calls inTime after its write with the time of the write. This is exact: a start that was too late is undone.
//   - inTime compares the slot with the times at which its schedule was declared ([kind.Payload]) and its record was created. Both are
//     stored, so this is exact too.
//   - The method turn compares slots with the corrected clock (type clock), and Skip compares them with the machine's own. If the
//     machine's clock is slow, they see only later that a slot is due.
//   - clock.learn accepts a clock that was at most 30 s ahead of the ensemble's when the slot was chosen.

// recheck bounds each wait for a slot: a clock may be set meanwhile, so everything is looked at again.
const recheck = time.Minute

// clock is this machine's clock, less its known lead over the ensemble's. Without that correction a client with a fast clock
// would wait for the slots of tomorrow, and find the slots of today too old. Call read before learn.
type clock struct {
	now     func() time.Time // the machine's clock
	own, at time.Time        // what the machine's clock showed at the last read, and the monotonic time of that read
	ahead   time.Duration    // the known lead of the machine's clock
}

// read returns the time. At the first read the result "set" is true, and also if the machine slept or its clock was changed since
// the last read. Then the lead is unknown.
func (c *clock) read() (now time.Time, set bool) {
	own, at := c.now().Round(0), time.Now()
	if drift := own.Sub(c.own) - at.Sub(c.at); c.at.IsZero() || drift.Abs() > time.Second {
		c.ahead, set = 0, true
	}
	c.own, c.at = own, at
	return own.Add(-c.ahead), set
}

// learn compares the time of the last read with a later time of the ensemble. It reports whether the corrected clock led by more than 30 s
// (maxEarly).
func (c *clock) learn(ensemble time.Time) (wrong bool) {
	was := c.ahead
	c.ahead = max(0, c.own.Sub(ensemble))
	return c.ahead-was > maxEarly
}
