package session

import "time"

// stamp is a moment, with the time the machine had been suspended by then. Go's monotonic clock stands still while the
// machine is suspended (golang/go#24595); a server's clock does not. So an age is the monotonic difference plus the time
// suspended in between, here called sleep.
type stamp struct {
	at    time.Time
	slept time.Duration
}

// clock tells the time. Tests say how long the machine has slept: in a synctest bubble time is fake and sleep is not.
type clock struct {
	replaced func() time.Duration // nil: the machine's own
}

func (c clock) now() stamp {
	now := time.Now()
	return stamp{at: now, slept: c.slept(now)}
}

// slept is how long the machine has been suspended by now, which the caller has just read.
func (c clock) slept(now time.Time) time.Duration {
	if c.replaced != nil {
		return c.replaced()
	}
	return slept(now)
}

// nap is the shortest sleep that counts: smaller differences are the noise of reading two clocks one after the other.
const nap = 10 * time.Millisecond

// after returns the time.Now() moment at which d will have passed since s, sleep included. slept is the machine's sleep until
// now: each second of it since s brings that moment a second nearer.
func (s stamp) after(d, slept time.Duration) time.Time {
	if gap := slept - s.slept; gap >= nap {
		d -= gap
	}
	return s.at.Add(d)
}
