package session

import "time"

// EventType says what an Event tells.
type EventType string

// What happens to a session.
const (
	EventOpened    EventType = "session opened"    // a server granted it
	EventConnected EventType = "session connected" // again, after its connection was lost
	EventSuspected EventType = "session suspected" // StateSuspect begins
	EventCleared   EventType = "session cleared"   // StateSuspect has ended, and the session lives
	EventLost      EventType = "session lost"      // StateLost; Err is why
	EventHeartbeat EventType = "heartbeat"         // one was answered after Took, or failed with Err
)

// Event is what Config.Trace is told.
type Event struct {
	Type    EventType
	Session *Session
	Took    time.Duration
	Err     error
}

// trace tells Config.Trace, of a session that a server has granted; mu is held.
func (s *Session) trace(what EventType, took time.Duration, err error) {
	if f := s.client.cfg.Trace; f != nil && s.id != 0 {
		f(Event{what, s, took, err})
	}
}
