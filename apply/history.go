package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// The history of a stack is a node beside its record: a JSON array of entries, the newest first. An apply writes it in the
// transaction that writes the record, so that there is an entry for each apply that was committed, and none for any other.
const (
	maxEntries = 50
	maxEntry   = 1 << 10 // bytes of one of them
)

// Entry is what the history has of one apply, or of one use of revoke or break.
type Entry struct {
	At         time.Time `json:"at"` // by the clock of the machine it ran on, UTC
	Operation  string    `json:"operation"`
	ID         string    `json:"id,omitempty"` // of the apply
	Who        string    `json:"who"`          // user@host
	Identities []string  `json:"identities"`   // as the servers know the connection, without hashes
	Version    string    `json:"version"`      // of the program
	CI         *CIRun    `json:"ci,omitempty"`
	Message    string    `json:"message,omitempty"`

	Plan    string   `json:"plan,omitempty"` // its sum, see [plan.Plan.Sum]
	Changes *Changes `json:"changes,omitempty"`
	// Unfinished: it was not the last transaction of the apply. The next one replaces the entry, so that it stays only if the apply
	// ended in between.
	Unfinished bool `json:"unfinished,omitempty"`

	Lock   string   `json:"lock,omitempty"` // of revoke and break, as what follows
	Holder string   `json:"holder,omitempty"`
	Waited bool     `json:"waited,omitempty"` // it was a place in the queue
	Token  uint64   `json:"token,omitempty"`
	Others []string `json:"others,omitempty"` // the other locks of the set
}

// CIRun is where a run of a CI system can be looked at.
type CIRun struct {
	System string `json:"system"`
	Run    string `json:"run"`
}

// Changes are [plan.Counts].
type Changes struct {
	Add     int `json:"add"`
	Change  int `json:"change"`
	Destroy int `json:"destroy"`
	Import  int `json:"import"`
	Forget  int `json:"forget"`
}

// encode returns an entry of at most maxEntry bytes: the longest of its texts are cut where it would be longer.
func (e Entry) encode() json.RawMessage {
	e.Identities, e.Others = slices.Clone(e.Identities), slices.Clone(e.Others)
	if e.CI != nil {
		e.CI = &CIRun{e.CI.System, e.CI.Run}
	}
	for {
		var b bytes.Buffer
		to := json.NewEncoder(&b)
		to.SetEscapeHTML(false)
		_ = to.Encode(e) // of strings and numbers
		if data := bytes.TrimSpace(b.Bytes()); len(data) <= maxEntry || !e.shorten() {
			return data
		}
	}
}

// shorten cuts the longest text in half, or drops the end of a list of many.
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

// entries are those of a node. What is short and no entry is kept as it is; what is longer than an entry is not, because every
// transaction of an apply would carry it. Data that no program of ours wrote has none.
func entries(data []byte) (all []json.RawMessage) {
	_ = json.Unmarshal(data, &all)
	return slices.DeleteFunc(all, func(one json.RawMessage) bool { return len(one) > maxEntry })
}

// with puts an entry in front of others, and takes that of an earlier transaction of the same apply away.
func with(e Entry, all []json.RawMessage, most int) []byte {
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

// History reads the history of a stack, the newest entry first; nil if there is none. It keeps the last 50 entries.
func History(ctx context.Context, s *recipes.Session, root, stack string) ([]Entry, error) {
	return historyAt(ctx, s, plan.HistoryPath(root, stack))
}

func historyAt(ctx context.Context, s *recipes.Session, path string) (out []Entry, err error) {
	h, err := readHistory(ctx, s, path)
	switch {
	case h.state == historyClosed:
		err = failure.Read(path, zk.ErrNoAuth)
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

// entry is what the history will have of the apply.
func (r *job) entry() Entry {
	c := r.p.Summary()
	e := r.x.signed("apply", r.start)
	switch {
	case r.p.Destroy:
		e.Operation = "destroy"
	case c.Import > 0 && c == plan.Counts{Import: c.Import, Change: c.Change}:
		e.Operation = "import"
	}
	e.ID, e.Plan, e.Changes = r.id, r.p.Sum(), &Changes{c.Add, c.Change, c.Destroy, c.Import, c.Forget}
	return e
}

// signed is an entry that says who does something, and why.
func (x *Applier) signed(operation string, at time.Time) Entry {
	o := x.opts
	return Entry{At: at.UTC(), Operation: operation, Who: o.Who, Identities: failure.WhoWeAre(x.client), Version: o.Version, CI: o.CI, Message: o.Message}
}

// historyState is how an apply may write the history.
type historyState int

const (
	historyAbsent historyState = iota
	historyClosed              // it is not ours to read and write: it must not stop an apply
	historyShort               // the servers read no longer transactions: only the newest entry is kept
	historyWhole
)

// history is the node of the history, as an apply knows it.
type history struct {
	path    string
	state   historyState
	entries []json.RawMessage
	version int32
	damaged bool
}

func readHistory(ctx context.Context, s *recipes.Session, path string) (history, error) {
	data, stat, err := s.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return history{path: path}, nil
	case errors.Is(err, zk.ErrNoAuth):
		return history{path: path, state: historyClosed}, nil
	case err != nil:
		return history{path: path}, failure.Read(path, err)
	}
	return history{path, historyWhole, entries(data), stat.Version, len(data) > 0 && !json.Valid(data)}, nil
}

// op writes an entry in front of the others, of which it keeps at most so many.
func (h *history) op(e Entry, most int) []plan.Op {
	return []plan.Op{{Kind: plan.OpSet, Path: h.path, Data: with(e, h.entries, most), Version: h.version}}
}

// lookBack reads the history, before the apply lock is taken: the less lies between that and the transaction, the fewer come into a lock
// that was idle. If it is written meanwhile, it is read again.
func (r *job) lookBack(ctx context.Context, s *recipes.Session) (err error) {
	r.history, err = readHistory(ctx, s, plan.HistoryPath(r.p.Root, r.p.Stack))
	return err
}

// note returns the operation that writes the history. Others write it without the apply lock; the version makes the transaction fail
// then, and it is sent again with what they wrote.
func (r *sending) note() []plan.Op {
	h := &r.history
	if r.noted = nil; h.state < historyShort {
		return nil
	}
	most := maxEntries
	if h.state == historyShort {
		most = 1
	}
	entry := r.entry
	entry.Unfinished = !r.tx.Last
	r.noted = &entry
	return h.op(entry, most)
}

// missed reports whether a transaction was refused because of the history, and may be sent again.
func (r *sending) missed(ctx context.Context, err error) bool {
	var conflict *failure.ConflictError
	var node *failure.NodeError
	switch h := &r.history; {
	case r.noted == nil:
		return false
	case errors.As(err, &conflict) && conflict.Path == h.path:
		return r.lookBack(ctx, r.s) == nil
	case errors.As(err, &node) && node.Path == h.path && errors.Is(err, zk.ErrNoAuth):
		h.state = historyClosed
	case errors.Is(err, plan.ErrTooLong) && !r.tx.Divisible && h.state == historyWhole && 4*plan.Size(r.all[:r.notes]) > r.size: // else it is not why
		h.state = historyShort
	default:
		return false
	}
	return true
}

// written goes on from a transaction that was committed.
func (r *sending) written() {
	if r.noted != nil {
		r.history.entries, r.history.version = entries(r.all[0].Data), r.history.version+1
	}
}
