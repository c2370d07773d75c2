package once

import "time"

// Each wait here, and each comparison with a time of the ensemble:
//
//	where                     what is waited for or compared                          late by at most
//	await                     the next slot, by clock                                 recheck, if the clock is set; else stagger
//	start, attempt            a slot that is not due, from the time of our contender  recheck + stagger; then all is read again
//	standBy                   a change of the record by those who queue               min(recheck, catch_up/8) + stagger
//	lock                      the job's lock                                          the runs of others: unbounded, but see inTime
//	retry.Tries.Over          another try: doubled, up to 1 s, in Run 5 s             as said, for each try
//	note                      the result is recorded                                  a session timeout
//	begin: early              slot - 30 s <= a time that has passed                   the wait for the lock, never early
//	begin: inTime, before     slot + catch_up >= that time                            the wait for the lock, so it decides only refusals
//	begin: inTime, behind     slot + catch_up >= when the start was written           0: it is undone
//	inTime: from              slot > when its schedule was declared, from [kind.Payload], and the record began    0: both are stored
//	Look, in turn and Skip    slots that are due, by clock; by the machine's in Skip  what that clock is behind
//	clock.learn               the clock by which a slot was chosen with the time of our contender                 30 s
//
// stagger is at most a second.

// recheck bounds each wait for a slot: a clock may be set meanwhile, so everything is looked at again.
const recheck = time.Minute

// clock is this machine's, less its known lead over the ensemble's: a client that is ahead would wait for slots of tomorrow, and
// find those of today too late. Its first use is read.
type clock struct {
	now     func() time.Time // of this machine
	own, at time.Time        // what it showed at the last look, and when that was
	ahead   time.Duration
}

// read returns the time. set reports whether the machine's clock has not been seen before, or was set since, or slept: then its
// lead is unknown.
func (c *clock) read() (now time.Time, set bool) {
	own, at := c.now().Round(0), time.Now()
	if drift := own.Sub(c.own) - at.Sub(c.at); c.at.IsZero() || drift.Abs() > time.Second {
		c.ahead, set = 0, true
	}
	c.own, c.at = own, at
	return own.Add(-c.ahead), set
}

// learn compares the time of the last look with a later one of the ensemble. It reports whether the clock was wrong by more than
// a slot may be early.
func (c *clock) learn(since time.Time) (wrong bool) {
	was := c.ahead
	c.ahead = max(0, c.own.Sub(since))
	return c.ahead-was > ahead
}
