package kind

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Connection says what is known of a contender's connection to the servers.
type Connection string

const (
	// NotAsked: no server was asked for its connections, or not all of them answered.
	NotAsked Connection = "not_asked"
	// Connected: a server lists the connection.
	Connected Connection = "connected"
	// Unseen: every server was asked once, and none lists the connection; or there is no list of sessions.
	Unseen Connection = "unseen"
	// CutOff: every server was asked twice, and none lists the connection. The contender may be connected to an unknown server.
	CutOff Connection = "cut_off"
	// Silent: the leader has not heard from the contender, through any server, for longer than a running client stays silent.
	Silent Connection = "silent"
	// NoSession: the contender's node belongs to no session, so the node stays until a program deletes it.
	NoSession Connection = "no_session"
)

// A Sight describes a holder or a waiter. JSON documents contain the Sight itself, and texts contain its Line. Fields that were
// not read are left out; Connection says whether the servers were asked.
type Sight struct {
	Node           string     `json:"node"`
	Key            *string    `json:"key,omitempty"` // the key, in a family; otherwise nil
	ID             string     `json:"id"`
	Shared         bool       `json:"shared"`
	Position       int        `json:"position"` // from 1
	Token          uint64     `json:"token,omitempty"`
	Session        string     `json:"session,omitempty"`
	Permits        int        `json:"permits,omitempty"`
	Host           string     `json:"host,omitempty"`
	PID            int        `json:"pid,omitempty"`
	Since          Stamp      `json:"since,omitzero"`
	Held           Stamp      `json:"held,omitzero"`
	Candidate      bool       `json:"candidate,omitempty"` // the contender leads an election, and the time of its election is not known
	ForMs          int64      `json:"for_ms,omitempty"`    // for how long the contender has held or waited
	Format         string     `json:"format,omitempty"`
	Revoked        *bool      `json:"revoked,omitempty"`
	Connection     Connection `json:"connection"`
	Connected      *bool      `json:"connected,omitempty"` // whether a server's list of connections has the contender
	ClientAddress  string     `json:"client_address,omitempty"`
	SilentMs       int64      `json:"silent_ms,omitempty"`
	SessionExpires Stamp      `json:"session_expires,omitzero"` // when the leader will end the session if the client stays silent

	at     time.Time // the time of the look
	unread bool      // only the name of the node is known
}

// NewSight describes a contender by its node alone. moment is the time of the look, zero if that is not known.
func NewSight(p Party, moment time.Time) Sight {
	s := Sight{Node: p.Path, ID: p.ID, Shared: p.Shared, Token: p.Token, Session: SessionID(p.Session), Permits: p.Permits,
		Host: p.Host, PID: p.PID, Since: Stamp{p.Since}, Held: Stamp{p.Held}, Candidate: p.Candidate, Format: p.Writer, Connection: NotAsked, at: moment,
		unread: p.ID == "" && p.Data == nil && p.Token == 0}
	if p.Writer != "" { // its node was read
		s.Revoked = &p.Revoked
	}
	if p.Key != "" {
		key, _ := ParseKeyName(p.Key)
		s.Key = &key
	}
	if p.Session == 0 && p.Token != 0 {
		s.Connection = NoSession
	}
	if since := s.countsFrom(); !since.IsZero() && moment.After(since) { // otherwise the clock that gave the time in since is ahead of ours
		s.ForMs = moment.Sub(since).Milliseconds()
	}
	return s
}

// countsFrom is the time from which the contender holds or waits. Clients of other libraries do not say when they were granted.
// For a holder of such a client that waited, the time is when it queued.
func (s Sight) countsFrom() time.Time { return cmp.Or(s.Held.Time, s.Since.Time) }

// Who returns the name, with "(reader)" and "(asked to release)" if these apply.
func (s Sight) Who() string {
	text := Visible(cmp.Or(s.ID, BaseName(s.Node)))
	if s.Shared {
		text += " (reader)"
	}
	if s.Revoked != nil && *s.Revoked {
		text += " (asked to release)"
	}
	return text
}

// Line is the whole text: the name and the details. These are host and process, address, since when, and the connection or the
// time when the place will be free.
func (s Sight) Line() string { return s.Who() + ", " + s.Details() }

// Details are the line without the name.
func (s Sight) Details() string {
	parts := []string{s.Process(), s.ClientAddress, s.When(), s.State()}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// Process is the host and the process, as "host/pid"; "" if the contender does not say them, or if its name is the same text.
func (s Sight) Process() string {
	text := s.Host
	if s.Host != "" && s.PID != 0 {
		text += "/" + strconv.Itoa(s.PID)
	}
	if text == s.ID {
		return ""
	}
	return Visible(text)
}

// When says since when the contender holds or waits, and for how long: "since 2026-11-02T08:00:00Z (1m30s)". For the leader of an
// election it says since when the leader has been a candidate.
func (s Sight) When() string {
	at := s.countsFrom()
	if at.IsZero() {
		return ""
	}
	text := "since " + at.UTC().Format(time.RFC3339)
	if s.Candidate {
		text = "candidate " + text
	}
	if age := s.For(); age != "" {
		text += " (" + age + ")"
	}
	return text
}

// For says for how long the contender has held or waited, in whole seconds; "" if that is not known.
func (s Sight) For() string {
	if at := s.countsFrom(); at.IsZero() || s.at.IsZero() || s.at.Before(at) {
		return ""
	}
	return (time.Duration(s.ForMs) * time.Millisecond).Truncate(time.Second).String()
}

// State says whether the contender is connected. If it is cut off or silent, State also says when its place will be free, as far
// as that is known.
func (s Sight) State() string {
	switch s.Connection {
	case Connected:
		return "connected"
	case Unseen:
		return "no connection seen"
	case CutOff:
		if s.SessionExpires.IsZero() {
			return "connected to no server that was asked; when its session ends is not known"
		}
		return "connected to no server that was asked; if it is gone, its place is free " + s.free()
	case Silent:
		return fmt.Sprintf("silent for %s; its place is free %s unless it comes back", (time.Duration(s.SilentMs) * time.Millisecond).Round(time.Second), s.free())
	case NoSession:
		return "belongs to no session: it stays until it is deleted"
	}
	if s.unread {
		return "its node was not read"
	}
	return "connection not asked"
}

// Away reports whether the contender is cut off or silent.
func (s Sight) Away() bool { return s.Connection == CutOff || s.Connection == Silent }

func (s Sight) free() string {
	return fmt.Sprintf("in about %s (%s)", max(0, s.SessionExpires.Sub(s.at)).Round(time.Second), s.SessionExpires.UTC().Format("15:04:05 MST"))
}

// SessionID returns a session id in the form of ZooKeeper's own tools, "" for no session.
func SessionID(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", uint64(id))
}

// Stamp is a time. Its MarshalJSON cannot fail; the one of time.Time fails for years after 9999, and other programs may have
// written any year.
type Stamp struct{ time.Time }

// MarshalJSON writes RFC 3339, in UTC.
func (s Stamp) MarshalJSON() ([]byte, error) {
	return s.UTC().AppendFormat(nil, `"`+time.RFC3339Nano+`"`), nil
}

// Visible escapes invisible characters of a foreign string as Go does. Such strings end up on terminals and in errors. There
// control characters would take effect, and direction marks and zero-width spaces would make one name look like another.
func Visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
