// Package clock measures time including the time a machine was suspended: Go's monotonic clock stops then, and the servers'
// clocks do not.
//
//	sent := c.Now()
//	deadline := sent.After(timeout/2, c.Slept(time.Now()))
package clock

import "time"

// Stamp is a moment, with the time the machine had been suspended by then. Go's monotonic clock stands still while the
// machine is suspended (golang/go#24595); a server's clock does not. So an age is the monotonic difference plus the time
// suspended in between, here called sleep.
type Stamp struct {
	At    time.Time
	Slept time.Duration
}

// Clock tells the time. Tests say how long the machine has slept: in a synctest bubble time is fake and sleep is not.
type Clock struct {
	Replaced func() time.Duration // nil: the machine's own
}

// Now returns the present moment.
func (c Clock) Now() Stamp {
	now := time.Now()
	return Stamp{At: now, Slept: c.Slept(now)}
}

// Slept is how long the machine has been suspended so far; the caller has just read moment.
func (c Clock) Slept(moment time.Time) time.Duration {
	if c.Replaced != nil {
		return c.Replaced()
	}
	return slept(moment)
}

// nap is the shortest sleep that counts: smaller differences are the noise of reading two clocks one after the other.
const nap = 10 * time.Millisecond

// After returns the time.Now() moment when d will have passed since s, sleep included. slept is how long the machine has slept so
// far: each second of sleep since s brings that moment a second nearer.
func (s Stamp) After(d, slept time.Duration) time.Time {
	if gap := slept - s.Slept; gap >= nap {
		d -= gap
	}
	return s.At.Add(d)
}
