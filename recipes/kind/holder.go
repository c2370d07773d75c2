package kind

import (
	"encoding/json"
	"time"
)

// RevokeMessage is what is written into a contender's node to ask for the lock, as Curator does
// (LockInternals.REVOKE_MESSAGE).
const RevokeMessage = "__REVOKE__"

// Holder is what our contenders say about themselves, in the data of their nodes. Held is set by the committed write that
// confirms a waited grant: who reads it knows that this contender is the front of its queue.
type Holder struct {
	ID    string     `json:"id"`
	Host  string     `json:"host"`
	PID   int        `json:"pid"`
	Since time.Time  `json:"since"`
	Held  *time.Time `json:"held,omitempty"`
	// Limit is, in a permit that was created before it was known to be granted, how many there were: one that stands
	// at that place or behind it was not granted, whatever the number is now.
	Limit int `json:"limit,omitempty"`
	// Permits is, in a place before a semaphore, how many are waited for.
	Permits int `json:"permits,omitempty"`
}

// Encode returns the holder as data of a node.
func (h Holder) Encode() []byte {
	b, err := json.Marshal(h)
	if err != nil {
		// A year beyond 9999 is the only way; the lock matters more than its label.
		return []byte(h.ID)
	}
	return b
}

// ParseHolder reads a node's data; false where it is not what Encode writes.
func ParseHolder(data []byte) (Holder, bool) {
	var h Holder
	err := json.Unmarshal(data, &h)
	return h, err == nil
}
