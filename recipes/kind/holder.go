package kind

import (
	"encoding/json"
	"strconv"
	"time"
)

// RevokeMessage is the data that asks a contender to give the lock back, as Curator writes it
// (LockInternals.REVOKE_MESSAGE).
const RevokeMessage = "__REVOKE__"

// Holder is what this library's contenders say about themselves in the data of their nodes. Held is when a contender that had
// to wait was granted. It is written after the grant: at once in a long queue, otherwise when the lock has been held for a
// moment. Whoever reads it knows that this contender is the front of its queue.
type Holder struct {
	ID    string     `json:"id"`
	Host  string     `json:"host"`
	PID   int        `json:"pid"`
	Since time.Time  `json:"since"`
	Held  *time.Time `json:"held,omitempty"`
	// Limit is in a permit that was created before it was known to be granted: the number of permits at that time. A
	// permit at that place or behind it was not granted, whatever the number is now.
	Limit int `json:"limit,omitempty"`
	// Permits is in a place in the queue of a semaphore: how many permits it waits for.
	Permits int `json:"permits,omitempty"`
}

// Encode returns the holder as a node's data: as encoding/json does, but what most contenders say is written without
// reflection, which would cost a client more than all else it does to make a contender.
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
		// Only a year beyond 9999 gets here; the lock matters more than its label.
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
