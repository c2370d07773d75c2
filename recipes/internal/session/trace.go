package session

import "time"

// EventType says what an Event is about.
type EventType string

// The events of a session.
const (
	EventOpened    EventType = "session opened"    // a server granted the session
	EventConnected EventType = "session connected" // the session has a connection again
	EventSuspected EventType = "session suspected" // StateSuspect begins
	EventCleared   EventType = "session cleared"   // StateActive again
	EventLost      EventType = "session lost"      // StateLost, because of Err
	EventHeartbeat EventType = "heartbeat"         // a heartbeat was answered after Took, or failed with Err
)

// Event is what Config.Trace receives.
type Event struct {
	Type    EventType
	Session int64 // its id
	Took    time.Duration
	Err     error
}

// trace calls Config.Trace, unless no server has granted the session yet; mu is held.
func (s *Session) trace(what EventType, took time.Duration, err error) {
	if f, id := s.client.cfg.Trace, s.ID(); f != nil && id != 0 {
		f(Event{what, id, took, err})
	}
}
