package kind

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RevokeMessage is the data that asks a contender to give the lock back, as Curator writes it (LockInternals.REVOKE_MESSAGE).
const RevokeMessage = "__REVOKE__"

// Holder has what this library's contenders say about themselves in the data of their nodes.
//
// Held is when a contender was granted, usually after a wait. For a permit, the client writes Held just before the grant. In
// other queues the client usually writes Held after the grant: at once in a long queue, otherwise when the lock has been held for
// a moment. A program that finds Held set knows that the queue admits this contender.
type Holder struct {
	ID    string     `json:"id"`
	Host  string     `json:"host"`
	PID   int        `json:"pid"`
	Since time.Time  `json:"since"`
	Held  *time.Time `json:"held,omitempty"`
	// Limit is the number of permits that the semaphore had when this permit was created. Every permit of this library has it;
	// permits of other clients do not. A permit with Limit or more other permits before it in the queue was not granted, whatever
	// the number is now.
	Limit int `json:"limit,omitempty"`
	// Permits is set in a node at a semaphore's gate: the number of permits that it waits for.
	Permits int `json:"permits,omitempty"`
}

// Encode returns the holder as a node's data, with the same bytes as encoding/json. It writes the usual fields without
// reflection. Reflection would cost a client more than all its other work for a contender.
func (h Holder) Encode() []byte {
	if h.Held == nil && h.Limit == 0 && h.Permits == 0 &&
		h.Since.Location() == time.UTC && h.Since.Year() >= 0 && h.Since.Year() <= 9999 {
		b := appendString(append(make([]byte, 0, 160), `{"id":`...), h.ID)
		b = appendString(append(b, `,"host":`...), h.Host)
		b = strconv.AppendInt(append(b, `,"pid":`...), int64(h.PID), 10)
		b = h.Since.AppendFormat(append(b, `,"since":"`...), time.RFC3339Nano)
		return append(b, `"}`...)
	}
	b, err := json.Marshal(h)
	if err != nil {
		// Encoding fails only for a year beyond 9999. The ID alone is then enough to hold the lock.
		return []byte(h.ID)
	}
	return b
}

// ParseHolder reads a node's data; false if Encode cannot have written it.
func ParseHolder(data []byte) (Holder, bool) {
	var h Holder
	err := json.Unmarshal(data, &h)
	return h, err == nil
}

// members are the fields of a JSON object. They are written as json.Marshal writes a map, but in a quarter of the time: a plan
// encodes every lock of a tree.
type members []member

type member struct {
	name  string
	value any
}

// addMissing adds to m the fields of extra that m does not have.
func (m members) addMissing(extra map[string]json.RawMessage) members {
	for name, value := range extra {
		if !slices.ContainsFunc(m, func(f member) bool { return f.name == name }) {
			m = append(m, member{name, value})
		}
	}
	return m
}

func (m members) append(b []byte) (_ []byte, err error) {
	slices.SortFunc(m, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	b = append(b, '{')
	for i, f := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, f.name), ':')
		switch v := f.value.(type) {
		case string:
			b = appendString(b, v)
		case int:
			b = strconv.AppendInt(b, int64(v), 10)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case bool:
			b = strconv.AppendBool(b, v)
		case interface{ append([]byte) ([]byte, error) }: // the types members and owner
			b, err = v.append(b)
		default:
			var raw []byte
			raw, err = json.Marshal(v)
			b = append(b, raw...)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// An owner is an Owner as it is encoded, with the fields that a newer version wrote.
type owner struct {
	Owner
	others map[string]json.RawMessage
}

// append writes our fields in the order of the struct, and then the others.
func (o owner) append(b []byte) ([]byte, error) {
	b = appendString(append(b, `{"stack":`...), o.Stack)
	b = appendString(append(b, `,"addr":`...), o.Addr)
	if len(o.others) == 0 {
		return append(b, '}'), nil
	}
	others, err := members(nil).addMissing(o.others).append(nil)
	if err != nil {
		return nil, err
	}
	return append(append(b, ','), others[1:]...), nil
}

// ownerOthers returns the fields of raw that the struct Owner does not have. It ignores letter case in names, because json.Unmarshal does.
// Nearly all owners have no other fields, and then no map is made.
func ownerOthers(raw json.RawMessage, ours Owner) (others map[string]json.RawMessage) {
	if plain, err := (owner{Owner: ours}).append(nil); err == nil && bytes.Equal(raw, plain) {
		return nil
	}
	_ = json.Unmarshal(raw, &others) // this cannot fail, because the same bytes were decoded into an Owner before
	maps.DeleteFunc(others, func(name string, _ json.RawMessage) bool {
		return strings.EqualFold(name, "stack") || strings.EqualFold(name, "addr")
	})
	return others
}

// appendString writes what json.Marshal writes, which has a form of its own for HTML's characters and for bytes that are not UTF-8.
func appendString(b []byte, s string) []byte {
	whole := len(b)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~' || c == '<' || c == '>' || c == '&':
			raw, _ := json.Marshal(s) // this cannot fail for a string
			return append(b[:whole], raw...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
