package zktest

import (
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Event is a watch event, as the predicate of [Server.InjectEvent] sees it.
type Event struct {
	Session int64
	Type    string // "created", "deleted", "dataChanged", "childrenChanged"
	Path    string
	N       int // the number of this event, from 1, among the events of this type that this rule has seen
}

// InjectEvent puts a fault in force for the watch events that match accepts. [DropEvent] swallows the event, [Delay] sends it later, and
// [Hold] sends it at [Injection.Release]. None of these three faults delays other events or replies. Other faults do nothing to an event.
//
// Unlike the predicate of [Server.Inject], match runs with the server locked: it must not call the server.
func (s *Server) InjectEvent(match func(Event) bool, f Fault) *Injection {
	i := newInjection(s, f)
	i.matchEvent = match
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventRules = append(s.eventRules, i)
	return i
}

// noZxid stands in an event that does not name the transaction that fired it.
const noZxid = -1

// sendEvent queues a watch event for the client, or applies a fault to it.
func (c *conn) sendEvent(typ wire.EventType, path string, zxid int64) {
	c.tally(func(n *Counts) { n.WatchEvents++ })
	if !c.s.opts.version.EventsHaveZxids() {
		zxid = noZxid
	}
	frame := wire.EventFrame(typ, path, zxid)
	r := c.s.eventFault(Event{Session: c.sid.Load(), Type: typ.String(), Path: path})
	switch {
	case r == nil:
		c.reply(frame)
	case r.fault.kind == faultDropRequest:
	case r.fault.kind == faultDelay:
		c.s.runLater(r.fault.d, func() { c.reply(frame) })
	case r.fault.kind == faultHold:
		r.waiting = append(r.waiting, func() { c.reply(frame) })
	default:
		c.reply(frame)
	}
}

// eventFault finds the first rule that matches.
func (s *Server) eventFault(e Event) (hit *Injection) {
	for _, r := range s.eventRules {
		r.seen[e.Type]++
		e.N = r.seen[e.Type]
		if hit == nil && r.matchEvent(e) {
			hit = r
			r.strike()
		}
	}
	return hit
}

// strike counts a hit and announces the first.
func (i *Injection) strike() {
	if i.hits++; i.hits == 1 {
		close(i.hit)
	}
}
