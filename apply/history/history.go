// Package history reads and writes the history of a stack: who applied what, and who asked for a lock back or broke one.
//
//	entries, err := history.Read(ctx, session, root, stack) // the newest first
//
// The history is a node beside the stack's record. A [Node] is that node as a writer knows it: [Node.Note] returns the operation
// that puts an [Entry] in front of the others. An apply sends it in the transaction that writes the record, so no entry is about an
// apply that was not committed. A committed apply has an entry unless the node is absent, or we may not read and write it. [Author]
// says who writes, and why.
//
// The package relies on plan/record for the path, on plan/tx for the operation, and on failure for the errors. It sends no write,
// and needs no apply lock: the version in the operation makes a transaction fail if the history has changed since.
package history

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// The node is a JSON array of entries, the newest first.
const (
	maxEntries = 50
	maxEntry   = 1 << 10 // bytes of an entry
)

// Entry is what the history has of one apply, or of one use of revoke or break.
type Entry struct {
	At         time.Time `json:"at"` // by the clock of the machine where the program ran, UTC
	Operation  string    `json:"operation"`
	ID         string    `json:"id,omitempty"` // of the apply, or of the revoke or break
	Who        string    `json:"who"`          // user@host
	Identities []string  `json:"identities"`   // as the servers know the connection, without hashes
	Version    string    `json:"version"`      // of the program
	CI         *CIRun    `json:"ci,omitempty"`
	Message    string    `json:"message,omitempty"`

	Plan    string   `json:"plan,omitempty"` // the sum of the plan, see [plan.Plan.Sum]
	Changes *Changes `json:"changes,omitempty"`
	// Unfinished: the transaction was not the last of the apply. The next transaction replaces the entry, so it stays only if the
	// apply ended in between.
	Unfinished bool `json:"unfinished,omitempty"`

	Lock   string   `json:"lock,omitempty"` // only of revoke and break, as are the fields below
	Holder string   `json:"holder,omitempty"`
	Waited bool     `json:"waited,omitempty"` // it was a place in the queue
	Token  uint64   `json:"token,omitempty"`
	Others []string `json:"others,omitempty"` // the other locks that were taken together with this one
}

// CIRun is where a run of a CI system can be looked at.
type CIRun struct {
	System string `json:"system"`
	Run    string `json:"run"`
}

// Changes are the counts of a plan, see [plan.Counts].
type Changes struct {
	Add     int `json:"add"`
	Change  int `json:"change"`
	Destroy int `json:"destroy"`
	Import  int `json:"import"`
	Forget  int `json:"forget"`
}

// Author is who does something, and why.
type Author struct {
	Who     string // user@host
	Version string // of the program
	CI      *CIRun
	Message string // without control characters; a long one is cut
}

// Entry returns an entry of the history by this author, with the identities of client c.
func (a Author) Entry(c *recipes.Client, operation string, at time.Time) Entry {
	return Entry{At: at.UTC(), Operation: operation, Who: a.Who, Identities: failure.WhoWeAre(c), Version: a.Version, CI: a.CI, Message: a.Message}
}

// encode returns an entry of at most maxEntry bytes. If an entry is too long, encode shortens its lists, and then its longest
// texts.
func (e Entry) encode() json.RawMessage {
	e.Identities, e.Others = slices.Clone(e.Identities), slices.Clone(e.Others)
	if e.CI != nil {
		e.CI = &CIRun{e.CI.System, e.CI.Run}
	}
	for {
		var b bytes.Buffer
		to := json.NewEncoder(&b)
		to.SetEscapeHTML(false)
		_ = to.Encode(e) // cannot fail: an entry has only strings, numbers and a time
		if data := bytes.TrimSpace(b.Bytes()); len(data) <= maxEntry || !e.shorten() {
			return data
		}
	}
}

// shorten cuts a list of more than four texts to three. If there is none, it cuts the longest text in half.
func (e *Entry) shorten() bool {
	for _, list := range []*[]string{&e.Identities, &e.Others} {
		if len(*list) > 4 {
			*list = append((*list)[:3], "…")
			return true
		}
	}
	texts := []*string{&e.Who, &e.Version, &e.Message, &e.Lock, &e.Holder}
	for _, list := range [][]string{e.Identities, e.Others} {
		for i := range list {
			texts = append(texts, &list[i])
		}
	}
	if e.CI != nil {
		texts = append(texts, &e.CI.Run)
	}
	longest := slices.MaxFunc(texts, func(a, b *string) int { return len(*a) - len(*b) })
	half := len(*longest) / 2
	for half > 0 && !utf8.RuneStart((*longest)[half]) {
		half--
	}
	if half == 0 {
		return false
	}
	*longest = (*longest)[:half] + "…"
	return true
}

// entries returns the entries of a node. An element that is no entry is kept if it is short. A longer element is dropped, because
// every transaction of an apply would carry it. Data that is no JSON array has no entries.
func entries(data []byte) (all []json.RawMessage) {
	_ = json.Unmarshal(data, &all)
	return slices.DeleteFunc(all, func(one json.RawMessage) bool { return len(one) > maxEntry })
}

// withEntry puts an entry in front of others, and removes the entry of an earlier transaction of the same apply.
func withEntry(e Entry, all []json.RawMessage, most int) []byte {
	all = slices.DeleteFunc(slices.Clone(all), func(one json.RawMessage) bool {
		var other Entry
		return json.Unmarshal(one, &other) == nil && other.ID == e.ID
	})
	out := append([]byte("["), e.encode()...)
	for _, one := range all[:min(len(all), most-1)] {
		out = append(append(out, ",\n"...), one...)
	}
	return append(out, ']')
}

// Read reads the history of a stack, the newest entry first; nil if there is none. The history keeps the last 50 entries.
func Read(ctx context.Context, s *direct.Session, root, stack string) ([]Entry, error) {
	return At(ctx, s, record.HistoryPath(root, stack))
}

// At reads the history at a path.
func At(ctx context.Context, s *direct.Session, path string) (out []Entry, err error) {
	h, err := Open(ctx, s, path)
	switch {
	case h.State == Closed:
		err = refusal.Read(path, zk.ErrNoAuth)
	case h.damaged:
		err = &failure.NodeError{Path: path, Op: "read", Why: "it is not a history", Next: "The next apply begins a new one."}
	}
	for _, one := range h.entries {
		var e Entry
		if json.Unmarshal(one, &e) == nil {
			out = append(out, e)
		}
	}
	return out, err
}

// State is how an apply may write the history.
type State int

const (
	Absent State = iota
	Closed       // we may not read and write the history, which must not stop an apply
	Short        // the servers refuse longer transactions: only the newest entry is kept
	Whole
)

// Node is the node of the history, as an apply knows it.
type Node struct {
	Path    string
	State   State
	entries []json.RawMessage
	version int32
	damaged bool
}

// Open reads the node at path. A node that is absent, or that we may not read, is no error.
func Open(ctx context.Context, s *direct.Session, path string) (Node, error) {
	data, stat, err := s.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return Node{Path: path}, nil
	case errors.Is(err, zk.ErrNoAuth):
		return Node{Path: path, State: Closed}, nil
	case err != nil:
		return Node{Path: path}, refusal.Read(path, err)
	}
	return Node{path, Whole, entries(data), stat.Version, len(data) > 0 && !json.Valid(data)}, nil
}

// Note returns the operation that writes an entry in front of the others, nil if nothing can be written.
func (h *Node) Note(e Entry) []tx.Op {
	most := maxEntries
	switch h.State {
	case Absent, Closed:
		return nil
	case Short:
		most = 1
	}
	return []tx.Op{{Kind: tx.OpSet, Path: h.Path, Data: withEntry(e, h.entries, most), Version: h.version}}
}

// Wrote updates the node after a committed transaction that wrote data into it.
func (h *Node) Wrote(data []byte) { h.entries, h.version = entries(data), h.version+1 }

// NewID is the ID of an apply, or of an eviction.
func NewID() string {
	b := make([]byte, tx.ApplyIDLen/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
