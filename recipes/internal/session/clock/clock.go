// Package clock measures time including the time a machine was suspended: Go's monotonic clock stops then, and the servers' clocks go
// on. It also has the times of a session, as fractions of its timeout.
//
//	sent := c.Now()
//	deadline := sent.After(clock.Lease.Of(timeout), c.Slept(time.Now()))
package clock

import "time"

// Stamp is a moment, with the time the machine had been suspended by then. Go's monotonic clock stands still while the machine is
// suspended (golang/go#24595); a server's clock goes on. So an age is the monotonic difference plus the time suspended in between, here
// called sleep.
type Stamp struct {
	At    time.Time
	Slept time.Duration
}

// Clock tells the time. Tests say how long the machine has slept: in a synctest bubble time is fake and sleep is not.
type Clock struct {
	Replaced func() time.Duration // nil: the machine's own sleep counts
}

// Now returns the present moment.
func (c Clock) Now() Stamp {
	now := time.Now()
	return Stamp{At: now, Slept: c.Slept(now)}
}

// Slept is how long the machine has been suspended so far. The parameter moment is the present time, which the caller has just
// read.
func (c Clock) Slept(moment time.Time) time.Duration {
	if c.Replaced != nil {
		return c.Replaced()
	}
	return sleepSinceStart(moment)
}

// nap is the shortest sleep that counts: smaller differences are the noise of reading two clocks one after the other.
const nap = 10 * time.Millisecond

// After returns when d will have passed since s, sleep included; callers compare the result with time.Now(). The parameter slept is how
// long the machine has slept so far: each second of sleep since s brings the result a second nearer.
func (s Stamp) After(d, slept time.Duration) time.Time {
	if gap := slept - s.Slept; gap >= nap {
		d -= gap
	}
	return s.At.Add(d)
}

// Fraction is a time of a session, in 96ths of its timeout T.
type Fraction time.Duration

// wholeTimeout is T: the servers expire a session that they have not heard from for so long.
const wholeTimeout Fraction = 96

// The times of a session. They depend on each other: change one only if these inequalities still hold. A test checks them. Safety rests
// on the first alone; the others keep leases and sessions from ending early.
//
//  1. Chain <= 15/16 wholeTimeout, and Report >= half a tick, because T is at least 4 ticks: see proof.deadline in package session.
//  2. Lease + Report + Beat + Spacing <= Chain. Lease counts from the last committed write, and Chain from the newest frame that is at
//     least Report older: see touched in package session. If heartbeats come in time, there is a frame every Beat, and link.touch keeps
//     one in each Spacing. So the older frame is at most Report + Beat + Spacing older, and Chain does not shorten the lease.
//  3. Beat < Doubt, so a heartbeat has time for its answer. Doubt + Beat <= Lease, so after Doubt another server still has the time
//     Beat to commit a heartbeat.
//  4. 10 Spacing <= Lease - Beat. After the first heartbeat that fails, ten passes over the servers fit into the lease.
//  5. 2 Ping <= Silent. A connection is given up only when a second ping was due.
//  6. Silent + 2 Respite <= Idle < wholeTimeout. A session that holds nothing has time for a pause and a pass after its connection has
//     fallen silent.
const (
	// Spacing is T/32: the least time between two heartbeats, or between two stamps of link.touch. It is also the longest pause between
	// two passes over the servers while a lease is in danger.
	Spacing Fraction = 3
	Respite Fraction = 8  // T/12: the longest pause before an attempt to connect while no lease is in danger
	Report  Fraction = 12 // T/8: within this time after a follower has heard from a session, it tells its leader
	Beat    Fraction = 16 // T/6: from the send of the last commit until a heartbeat is due
	Doubt   Fraction = 32 // T/3: from the send of the last commit until a session that holds something is suspect
	Ping    Fraction = 32 // T/3: from the last frame until a ping is sent
	Lease   Fraction = 48 // T/2: from the send of the last commit until a lease ends
	Silent  Fraction = 64 // 2T/3: from the send of the newest answered frame until the connection is given up
	Idle    Fraction = 84 // 7T/8: from that send time until a session that holds nothing counts as lost
	Chain   Fraction = 90 // 15T/16: from the stamp touched until a lease ends; the sixteenth is for clocks of different rates
)

// Of returns the fraction of the timeout t.
func (f Fraction) Of(t time.Duration) time.Duration {
	return t * time.Duration(f) / time.Duration(wholeTimeout)
}
