package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// Notice is one line of -events: what two looks in a row show. It happened after Since and was seen at Seen. What began and ended
// between two looks is not seen: programs' own metrics count.
type Notice struct {
	Event    string      `json:"event"`
	Seen     kind.Stamp  `json:"seen"`
	Since    kind.Stamp  `json:"since"`
	Ensemble string      `json:"ensemble,omitempty"`
	Lock     string      `json:"lock,omitempty"`
	Party    *kind.Sight `json:"party,omitempty"`  // who was granted, or lost it; who is beyond a limit
	Missed   int         `json:"missed,omitempty"` // how many nodes in a lock's queue came and went between looks
	Limit    string      `json:"limit,omitempty"`
	Declared string      `json:"declared,omitempty"`
	Text     string      `json:"text,omitempty"` // of a deadlock; why there is an outage; where the page is
	Stack    string      `json:"stack,omitempty"`
	Changes  *applied    `json:"changes,omitempty"`
	Dropped  int         `json:"dropped,omitempty"`        // how many lines before this one were not written, because nobody read them
	Version  string      `json:"format_version,omitempty"` // of these lines, in the first one
}

// applied counts the declarations of a stack that differ between two looks. An apply of many locks may be seen in several.
type applied struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
}

// noticer compares what an ensemble's looks show besides changes of hands.
type noticer struct {
	going map[string]Notice // that have begun and not ended: deadlocks, limits that are exceeded
	last  map[string]int32  // the newest sequence number that was seen, by directory
}

// begun notes what is the case now, and tells what of it is new and what has ended.
func (n *noticer) begun(seen, before time.Time, now map[string]Notice) (out []Notice) {
	for key, x := range now {
		if old, ok := n.going[key]; ok {
			now[key] = old
			continue
		}
		out = append(out, x)
	}
	for key, x := range n.going {
		if _, ok := now[key]; !ok {
			x.Event, x.Seen, x.Since = x.Event+"_ended", kind.Stamp{Time: seen}, kind.Stamp{Time: before}
			out = append(out, x)
		}
	}
	n.going = now
	slices.SortFunc(out, func(a, b Notice) int { return strings.Compare(a.Event+a.Lock+a.Text, b.Event+b.Lock+b.Text) })
	return out
}

// look is what a look shows to go on: deadlocks, and limits that somebody is beyond.
func (n *noticer) look(e *Ensemble, before time.Time) []Notice {
	snap, now := e.Snapshot, map[string]Notice{}
	seen := kind.Stamp{Time: snap.At}
	for _, d := range snap.Waits.Deadlocks {
		steps := make([]string, len(d))
		for i, s := range d {
			steps[i] = fmt.Sprintf("%q %q %q", s.Who, s.Holds, s.Waits)
		}
		slices.Sort(steps) // a circle has no first
		now["deadlock "+strings.Join(steps, " ")] = Notice{Event: "deadlock", Seen: seen, Since: kind.Stamp{Time: before}, Ensemble: e.Name, Lock: d[0].Holds, Text: sentence(d)}
	}
	for _, in := range snap.Locks {
		if in.Payload.Limits().MaxHold+in.Payload.Limits().MaxWait == "" || !in.Busy() {
			continue
		}
		for _, x := range view.Exceeded(in, snap.At) {
			most := in.Payload.Limits().Hold()
			if x.Limit == "max_wait" {
				most = in.Payload.Limits().Wait()
			}
			who := e.sight(x.Who)
			now[fmt.Sprintf("%s %s %s", x.Limit, x.Who.Path, who.Session)] = Notice{Event: "limit_exceeded", Seen: seen, Since: kind.Stamp{Time: view.Since(x.Who).Add(most)},
				Ensemble: e.Name, Lock: in.Path, Party: &who, Limit: x.Limit, Declared: x.Declared}
		}
	}
	return n.begun(snap.At, before, now)
}

// unseen counts the nodes in the queue of a lock that came and went between two looks. Sequence numbers tell: every new node has the
// next one of its directory, whether it is granted the lock or not. It shows with the next contender that is seen. What passes through
// an antechamber is not missed.
func (n *noticer) unseen(in *inspect.Report) (missed int) {
	newest, fresh := map[string]int32{}, map[string]int{}
	for _, c := range slices.Concat(in.Holders, in.Waiters) {
		dir := kind.ParentPath(c.Path)
		if c.Seq < 0 || slices.ContainsFunc(in.Kind.Queues, func(q kind.Queue) bool { return q.Gate && q.Dir(in.Path) == dir }) {
			continue
		}
		if last, known := n.last[dir]; known && c.Seq > last {
			fresh[dir]++
		}
		newest[dir] = max(newest[dir], c.Seq)
	}
	for dir, seq := range newest {
		last, known := n.last[dir]
		if known && seq > last {
			missed += max(0, int(seq-last)-fresh[dir])
		}
		if !known || seq > last {
			n.last[dir] = seq
		}
	}
	return missed
}

// declarations notes how the declaration of a lock differs; either may be nil.
func declarations(a, b *inspect.Report, unread []inspect.Unread, by map[string]*applied) {
	of := func(in *inspect.Report) *kind.Payload {
		if in == nil {
			return nil
		}
		return in.Payload
	}
	was, is := of(a), of(b)
	count := func(p *kind.Payload) *applied {
		if by[p.Owner.Stack] == nil {
			by[p.Owner.Stack] = &applied{}
		}
		return by[p.Owner.Stack]
	}
	switch {
	case was == nil && is == nil:
	case was == nil:
		count(is).Add++
	case is == nil:
		if !slices.ContainsFunc(unread, func(u inspect.Unread) bool { return u.Path == a.Path && !u.Missing() }) {
			count(was).Remove++
		}
	case was.Gen != is.Gen || was.State != is.State || was.Owner != is.Owner:
		count(is).Change++
	}
}

// Journal writes notices as lines of JSON. A reader that does not read holds nobody up: what it misses is counted.
type Journal struct {
	lines chan Notice
	ended chan struct{}

	mu      sync.Mutex
	dropped int  // since the last line
	over    bool // lines is closed
}

// NewJournal writes to w until End; failed is told of the first line that could not be written.
func NewJournal(w io.Writer, failed func(error)) *Journal {
	j := &Journal{lines: make(chan Notice, 4096), ended: make(chan struct{})}
	go func() {
		defer close(j.ended)
		for n := range j.lines {
			line, err := json.Marshal(n)
			if err == nil {
				_, err = w.Write(append(line, '\n'))
			}
			if err != nil && failed != nil {
				failed(err)
				failed = nil
			}
		}
	}()
	return j
}

// Note adds notices. A nil Journal drops them.
func (j *Journal) Note(all ...Notice) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range all {
		if j.over {
			return
		}
		n.Dropped = j.dropped
		select {
		case j.lines <- n:
			j.dropped = 0
		default:
			j.dropped++
		}
	}
}

// End waits no longer than a moment for what is still to be written. What is noted later is dropped.
func (j *Journal) End() {
	if j == nil {
		return
	}
	j.mu.Lock()
	j.over = true
	close(j.lines)
	j.mu.Unlock()
	select {
	case <-j.ended:
	case <-time.After(endWithin):
	}
}
