package apply

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// maxDescribed is how many contenders of one lock are read; a plan names a few and counts
// the rest.
const maxDescribed = 32

// use fills in the structural children and the contenders of a lock.
//
// It needs few requests, because it does this for every lock of a tree: one for each part, and none for
// an idle mutex, whose number of children came with its data. Contenders are listed and read only if
// there are more children than parts.
func (r *reader) use(ctx context.Context, a *session.Ahead, n *plan.Node) error {
	k := n.Kind()
	lists := map[string][]string{} // children by queue directory, "" for the lock itself
	for _, name := range k.Children {
		part, names, err := r.part(ctx, a, n.Path, name)
		if err != nil {
			return err
		}
		n.Live.Parts = append(n.Live.Parts, part)
		lists[name] = names
	}
	if n.Live.Children > present(n.Live.Parts) {
		names, _, err := r.s.Children(ctx, n.Path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return readError(n.Path, err)
		}
		lists[""] = without(names, k.Children)
	}
	line, junk := queued(n, lists)
	if len(line)+len(junk) == 0 {
		return nil
	}
	if err := r.describe(ctx, n, line); err != nil {
		return err
	}
	n.Live.Usage = sortUsage(n.Kind(), line, junk)
	return nil
}

func present(parts []plan.Part) (n int) {
	for _, p := range parts {
		if !p.Absent {
			n++
		}
	}
	return n
}

func without(names, structural []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(structural, name) })
}

func (r *reader) part(ctx context.Context, a *session.Ahead, path, name string) (plan.Part, []string, error) {
	path = kind.JoinPath(path, name)
	// Its answer has the stat, too: list, versions and number of children in one request.
	acl, stat, err := a.GetACL(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return plan.Part{Name: name, Absent: true}, nil, nil
	}
	if err != nil {
		return plan.Part{}, nil, readError(path, err)
	}
	p := plan.Part{
		Name: name, Czxid: stat.Czxid, Version: stat.Version, Aversion: stat.Aversion,
		Children: int(stat.NumChildren), ACL: r.share.list(fromZK(acl)),
	}
	if p.Children == 0 {
		return p, nil, nil
	}
	names, _, err := r.s.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return plan.Part{}, nil, readError(path, err)
	}
	return p, names, nil
}

// entry is one contender, before it goes into a Usage.
type entry struct {
	plan.Holder
	gate     bool // it is in an antechamber
	place    int  // in its queue
	admitted bool // by the kind's rule, under the present parameters
	limit    int  // the limit under which it was created, which our clients write; 0 when unknown
	held     bool // it says that it was granted
}

// queued lists the contenders of all queues of a lock, the deciding one first.
//
// That one comes first because describe reads only so many: it contains the holders, about whom
// people ask.
func queued(n *plan.Node, lists map[string][]string) (line []entry, junk []string) {
	k := n.Kind()
	for i, q := range k.Queues {
		queue, others := kind.SortContenders(lists[q.Child])
		delete(lists, q.Child)
		for j, c := range queue {
			e := entry{Holder: plan.Holder{Name: c.Name, Shared: c.Shared}, gate: q.Gate, place: j}
			if q.Child != "" {
				e.Name = kind.JoinPath(q.Child, c.Name)
			}
			// Only the deciding queue admits; the first in an antechamber waits like the others.
			e.admitted = i == 0 && q.Admit(n.Payload.Params, queue, j).Granted
			line = append(line, e)
		}
		junk = append(junk, others...)
	}
	for _, names := range lists { // children where this kind has no queue
		junk = append(junk, names...)
	}
	slices.Sort(junk)
	return line, junk
}

// sortUsage separates holders from waiters: by the kind's own rule, and if the kind has an
// antechamber, also by the limit when they came, because whoever was granted a permit keeps it
// when the number of permits is lowered.
func sortUsage(k *kind.Kind, line []entry, junk []string) *plan.Usage {
	hasGate := slices.ContainsFunc(k.Queues, func(q kind.Queue) bool { return q.Gate })
	gated := map[int64]bool{}
	for _, e := range line {
		if e.gate {
			gated[e.Session] = true
		}
	}
	delete(gated, 0) // sessions that were not read
	u := &plan.Usage{Junk: junk}
	for _, e := range line {
		holds := e.admitted || !e.gate && e.granted(gated, hasGate)
		// A node outside the antechamber is one permit. Permits that are not granted yet are not counted
		// while their client is in the antechamber: its node there has the number.
		if hasGate && !e.gate && (holds || !gated[e.Session]) {
			e.Permits = 1
		}
		if holds {
			u.Holders = append(u.Holders, e.Holder)
		} else {
			u.Waiters = append(u.Waiters, e.Holder)
		}
	}
	return u
}

// granted reports whether a permit was granted. Our clients note the limit under which they came, and
// places only move forward. Curator's clients keep their place in the antechamber until they are
// granted.
//
// That is how InterProcessSemaphoreV2 works: it takes a lock below "locks", adds its lease, waits
// until there are few enough of them, and releases the lock. So a lease whose session has no place
// there was granted (TestForeignPermitsStayHeldWhenTheLimitIsLowered).
func (e entry) granted(gated map[int64]bool, hasGate bool) bool {
	switch {
	case e.held:
		return true
	case e.limit > 0:
		return e.place < e.limit
	default:
		return hasGate && e.Session != 0 && !gated[e.Session]
	}
}

// describe reads who the contenders are. Those after the first maxDescribed are distinguished only by
// their places.
func (r *reader) describe(ctx context.Context, n *plan.Node, line []entry) error {
	a := r.s.ReadAhead()
	var told []*entry
	for i := range line {
		e := &line[i]
		// The first in an antechamber may be in the deciding queue too, and only its session
		// reveals that it is not granted yet.
		if i < maxDescribed || e.gate && e.place == 0 {
			told = append(told, e)
			a.WillGet(kind.JoinPath(n.Path, e.Name))
		}
	}
	a.Send(ctx)
	for _, e := range told {
		data, stat, err := a.Get(ctx, kind.JoinPath(n.Path, e.Name))
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			continue // it is gone, or we may not read it: its name is all we know
		case err != nil:
			return readError(n.Path, err)
		}
		e.tell(data)
		e.Session, e.Token, e.SinceMs = stat.EphemeralOwner, uint64(stat.Czxid), stat.Ctime
	}
	return nil
}

// maxID is the length up to which foreign data counts as an ID.
const maxID = 120

// tell reads what a contender says about itself: the fields that our library writes, or
// a short text, as other clients write.
func (e *entry) tell(data []byte) {
	var ours struct {
		ID      string          `json:"id"`
		Limit   int             `json:"limit"`
		Held    json.RawMessage `json:"held"`
		Permits int             `json:"permits"`
		Retain  int64           `json:"retain_ms"`
	}
	id := string(data)
	if json.Unmarshal(data, &ours) == nil {
		id, e.limit, e.held, e.RetainMs = ours.ID, ours.Limit, ours.Held != nil, ours.Retain
		var at time.Time
		if json.Unmarshal(ours.Held, &at) == nil && !at.IsZero() {
			e.HeldMs = at.UnixMilli()
		}
	}
	if e.gate { // clients that do not say how many take one at a time
		e.Permits = max(1, ours.Permits)
	}
	if len(id) <= maxID && utf8.ValidString(id) && !strings.ContainsFunc(id, func(c rune) bool { return !unicode.IsPrint(c) }) {
		e.ID = id
	}
}
