package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session/clock"
)

// proof is the newest committed write of the session. Its times bound the life of the session: see deadline. The answer to a ping
// or a read proves nothing, because a follower cut off from its leader answers both. Measured with pings, two clients believed for
// 5.82 s that they held one lock.
type proof struct {
	sent    clock.Stamp // when the write was sent
	touched clock.Stamp // the send time of the newest frame that is at least T/8 older than the write; see link.touch
}

// deadline is the time before which no server expires the session, with T for the session timeout.
func (p proof) deadline(t, slept time.Duration) time.Time {
	own := p.sent.After(clock.Lease.Of(t), slept)
	// The session lives until T after touched:
	//  1. It lived when the write was sent: a leader processes a write only while the session is alive. But a write that a follower
	//     forwards does not extend the session.
	//  2. Every half tick, at most T/8 because T >= 4 ticks, a follower tells the leader which sessions it has heard from. Its
	//     messages arrive in order. So when the leader got the write, it knew what the follower had heard until T/8 before it.
	//
	// Chain is T less a sixteenth, which allows for clocks that run at different rates.
	chain := p.touched.After(clock.Chain.Of(t), slept)
	if chain.Before(own) {
		return chain
	}
	return own
}

// Proven reports whether a write of this session that was sent less than T/6 ago has been committed. Unless touched ends it
// earlier, a lease lasts T/2 from that send. So a new lease has at least T/3 left, as much as a held lease has just before a heartbeat.
func (s *Session) Proven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.readClock()
	return s.state != StateLost && now.Before(s.proof.sent.After(clock.Beat.Of(s.timeout), s.slept))
}

// Deadline returns the time before which no server expires this session, under the conditions of the package documentation. It
// is T/2 after the SEND of its last committed write; creating the session counts as a write. It is earlier if the requests before
// that write were too far apart, and earlier by the time the machine has been suspended since. It is a time.Now() time
// (monotonic). Once the session is lost it is in the past.
func (s *Session) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.readClock()
	d := s.proof.deadline(s.timeout, s.slept)
	if s.state == StateLost && d.After(now) {
		return now.Add(-1)
	}
	return d
}

// noteAnswer notes an answer to a frame; the parameter sent is the time when the frame was sent. It clears a suspect session that
// holds nothing. If something is held, an answer proves only that a server is there: see proof.
func (s *Session) noteAnswer(sent clock.Stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.At.After(s.answered.At) {
		s.answered = sent
	}
	if len(s.holds) == 0 {
		s.reassure()
	}
}

// noteCommit notes that a write was committed; the parameter sent is the time when it was sent. A later write may have an older
// time in touched, and then proves less.
func (s *Session) noteCommit(sent, touched clock.Stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slept = max(s.slept, sent.Slept) // a sleep since then would bring the old and the new deadline nearer alike
	if next := (proof{sent, touched}); next.deadline(s.timeout, s.slept).After(s.proof.deadline(s.timeout, s.slept)) {
		s.proof = next
	}
	s.reassure()
}

// reassure ends a doubt that an answer has removed. mu is held.
func (s *Session) reassure() {
	if s.state == StateSuspect && s.link != nil && s.readClock().Before(s.schedule().doubt) {
		s.move(StateActive)
		s.wake()
	}
}

// readClock reads the clock. It returns the time, and stores the machine's sleep in the field slept. mu is held.
func (s *Session) readClock() (now time.Time) {
	now = time.Now()
	s.slept = s.clock.Slept(now)
	return now
}

// schedule says when the session does what next. It follows from the last answer and the last commit. The moment of an action
// that is due is in the past. An action that does not apply has the value never.
type schedule struct {
	beat    time.Time // a heartbeat is due: T/6 after the send of the last commit, at once while the session is suspect
	doubt   time.Time // the session becomes suspect: by silence or, while something is held, by the lack of commits
	another time.Time // this server answers but commits nothing, as a follower without its leader does: another server is tried
	silent  time.Time // the connection counts as dead: nothing sent within the last 2T/3 has been answered
	lost    time.Time // the session counts as lost
}

var never = time.Unix(1<<40, 0)

// schedule computes the schedule from s.slept, the sleep that was read last. mu is held.
func (s *Session) schedule() (x schedule) {
	commit := func(f clock.Fraction) time.Time { return s.proof.sent.After(f.Of(s.timeout), s.slept) }
	held := len(s.holds) > 0
	x.beat, x.another = never, never
	x.silent = s.answered.After(clock.Silent.Of(s.timeout), s.slept)
	x.doubt = x.silent
	if held {
		if doubt := commit(clock.Doubt); doubt.Before(x.doubt) {
			x.doubt = doubt
		}
		x.lost = s.proof.deadline(s.timeout, s.slept) // a promise: see Deadline
	} else {
		x.lost = s.answered.After(clock.Idle.Of(s.timeout), s.slept)
	}
	if s.link == nil {
		return x
	}
	if held { // a new connection gets T/6 to do better
		if x.another = commit(clock.Doubt); x.another.Before(s.link.asked.After(clock.Beat.Of(s.timeout), s.slept)) {
			x.another = s.link.asked.After(clock.Beat.Of(s.timeout), s.slept)
		}
	}
	if (held || len(s.next) > 0) && !s.beating {
		if x.beat = commit(clock.Beat); s.state == StateSuspect || x.beat.Before(s.nextBeat) {
			x.beat = s.nextBeat
		}
	}
	return x
}

// nextMoment returns the first moment of the schedule after now; what was due up to now has been done. If a moment is put off
// later, watchClock looks too early, which does no harm. Code that moves a moment nearer calls wake, at least if the new moment is
// before Session.looks.
func (x schedule) nextMoment(now time.Time) time.Time {
	next := x.lost
	for _, at := range [...]time.Time{x.beat, x.doubt, x.another, x.silent} {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	return next
}

// heldThing is one thing held on the strength of the node at path.
type heldThing struct {
	path string
	lost func(error) // called when the session is lost, or a heartbeat finds the node gone
	gone bool        // the node can no longer carry heartbeats
	over bool        // released
}

// Hold tells the session that the caller holds something by virtue of its nodes at paths. A grant has this order: a committed
// write (the create itself, Confirm, or any other), then Hold, then the grant. If no committed write is recent enough, Hold makes
// one first and may fail as Confirm does. With LoseOnSuspect, it also makes one if the session is suspect or then would be. It fails
// with ErrLost when the session is lost. All paths are registered at one moment, or none. Without paths nothing is held.
//
// While anything is held, the session commits a heartbeat whenever T/6 has passed without a committed write. A heartbeat is a
// Confirm of one of the held paths that still exist, in turn. The session is lost when Deadline passes.
//
// The session calls onLoss with Session.Err when it is lost, on the goroutine that finds the loss. The call comes before any operation
// fails because of the loss, and before a closeSession is sent. It calls onLoss with zk.ErrNoNode when a heartbeat finds that a path is
// gone. No mutex is held then, so onLoss may use the Client. It must not block or operate on the session: the session, the next one and
// Client.Close wait for it. onLoss may be nil. It is not called when Hold fails, or for a loss after release. If the loss overlaps release,
// the call may come after release has returned. The caller must call release; calling it again does nothing.
func (s *Session) Hold(ctx context.Context, onLoss func(error), paths ...string) (release func(), err error) {
	if len(paths) == 0 {
		return func() {}, s.Err()
	}
	for {
		switch release, err = s.hold(onLoss, paths...); {
		case errors.Is(err, ErrLost):
			return nil, s.whyLost()
		case !errors.Is(err, errStaleProof):
			return release, err
		}
		if err := s.Confirm(ctx, paths...); err != nil {
			return nil, err
		}
	}
}

// hold is Hold, but commits no write: if one is needed, it fails with errStaleProof.
func (s *Session) hold(onLoss func(error), paths ...string) (release func(), err error) {
	s.State() // looks at the clock, and reads s.slept
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == StateLost {
		return nil, s.err
	}
	now := time.Now()
	suspect := s.state == StateSuspect || !now.Before(s.proof.sent.After(clock.Doubt.Of(s.timeout), s.slept)) // or will be at the next look
	if !now.Before(s.proof.deadline(s.timeout, s.slept)) || suspect && s.client.cfg.LoseOnSuspect {
		return nil, errStaleProof
	}
	own := make([]heldThing, len(paths))
	for i, path := range paths {
		own[i] = heldThing{path: path, lost: onLoss}
		s.holds = append(s.holds, &own[i])
	}
	s.hasten(now)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range own {
			own[i].over = true
		}
		s.holds = slices.DeleteFunc(s.holds, func(h *heldThing) bool { return h.over })
	}, nil
}

// Ready keeps the session proven (see Proven) for a caller that expects to hold the node at path next. The session commits
// heartbeats as for Hold, but no deadline applies. The caller must call stop; calling it again does nothing.
func (s *Session) Ready(path string) (stop func()) {
	h := &heldThing{path: path}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, h)
	s.hasten(time.Now())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.over = true
		s.next = slices.DeleteFunc(s.next, func(h *heldThing) bool { return h.over })
	}
}

// watchClock looks whenever a deadline may have passed, until the session is lost.
func (s *Session) watchClock() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.done:
			return
		}
		s.mu.Lock()
		// While s.looks is an hour ahead, hasten wakes this loop for each deadline that moves nearer during this look.
		s.looks = time.Now().Add(time.Hour)
		s.mu.Unlock()
		next := s.look()
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()
		if l != nil {
			next = l.expire(next)
		}
		s.mu.Lock()
		s.looks = next
		s.mu.Unlock()
		timer.Reset(time.Until(next))
	}
}

// look compares the clock with the deadlines, acts on those that have passed and returns the next one.
func (s *Session) look() (next time.Time) {
	s.mu.Lock()
	if s.state == stateAsked || s.state == StateLost {
		defer s.mu.Unlock()
		return time.Now().Add(s.timeout)
	}
	// Check the gravest deadline first: when look comes late, in a program that was stopped, several deadlines may have passed.
	now := s.readClock()
	x := s.schedule()
	if !now.Before(x.lost) {
		cause := fmt.Errorf("no server answered for %v of a session timeout of %v", now.Sub(s.answered.At).Round(time.Millisecond), s.timeout)
		if len(s.holds) > 0 {
			cause = fmt.Errorf("no write was committed for %v; a lease lasts half of the session timeout of %v",
				now.Sub(s.proof.sent.At).Round(time.Millisecond), s.timeout)
		}
		linked := s.link != nil
		s.mu.Unlock()
		if !linked {
			cause = fmt.Errorf("%w (%s)", cause, s.hosts.Report())
		}
		s.lose(cause)
		return now
	}
	if !now.Before(x.doubt) {
		s.move(StateSuspect)
	}
	if s.state == StateSuspect && s.client.cfg.LoseOnSuspect && len(s.holds) > 0 {
		s.mu.Unlock()
		s.lose(errDoubt)
		return now
	}
	dead := s.link // keep the link that is judged here: when it is failed below, s.link may be its successor
	var beat *heldThing
	if dead != nil && now.Before(x.silent) && (now.Before(x.another) || s.hosts.Size() == 1) {
		// dueHeartbeat is called only if the link lives: the node that it returns must get a heartbeat.
		dead, beat = nil, s.dueHeartbeat(now)
	}
	if beat != nil {
		s.running.Go(func() { s.beat(beat) })
	}
	next = s.schedule().nextMoment(now)
	l := s.link
	s.mu.Unlock()
	switch {
	case dead != nil:
		dead.fail(errSilent)
	case l != nil && !s.hosts.Listed(l.target):
		l.retire()
	}
	return next
}

var errDoubt = errors.New("the session is in doubt and Config.LoseOnSuspect says that this ends it while something is held")

var errSilent = errors.New("it answers nothing, or commits nothing")

// dueHeartbeat returns the node to send a heartbeat on, if it is time for one. mu is held.
func (s *Session) dueHeartbeat(now time.Time) *heldThing {
	if now.Before(s.schedule().beat) {
		return nil
	}
	for _, list := range []*[]*heldThing{&s.holds, &s.next} {
		for i, h := range *list {
			if !h.gone {
				s.beating = true
				s.nextBeat = now.Add(clock.Spacing.Of(s.timeout))
				// Take the nodes in turn, so that the absence of each is found.
				*list = append(slices.Delete(*list, i, i+1), h)
				return h
			}
		}
	}
	return nil
}

// beat sends one heartbeat. A heartbeat without an answer usually ends with the connection (see schedule), before its own bound.
func (s *Session) beat(h *heldThing) {
	ctx, cancel := context.WithTimeout(s.live, clock.Doubt.Of(s.Timeout()))
	defer cancel()
	sent := time.Now()
	err := s.confirm(ctx, laneBeat, h.path)
	s.mu.Lock()
	if s.state != StateLost { // no event follows EventLost
		s.trace(EventHeartbeat, time.Since(sent), err)
	}
	s.beating = false
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, ErrCannotHeartbeat) {
		h.gone, s.nextBeat = true, time.Time{}
	}
	held := !h.over
	s.wake()
	s.mu.Unlock()
	if errors.Is(err, zk.ErrNoNode) && held && h.lost != nil { // in case the event of the deletion has not come
		h.lost(err)
	}
}

// hasten wakes watchClock if what has changed needs a look sooner than planned. mu is held.
func (s *Session) hasten(now time.Time) {
	if x := s.schedule(); !x.beat.After(now) || x.nextMoment(now).Before(s.looks) {
		s.wake()
	}
}

// wake makes watchClock look again. One pending kick is as good as many: watchClock looks at everything.
func (s *Session) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
