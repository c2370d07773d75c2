package lockview

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// KeyName is a key as people read it: in quotes, for it may be empty or contain spaces.
func KeyName(key string) string { return `"` + view.Clean(key) + `"` }

// typeOf is the type of a lock as people read it. For a family it has the type of each key, too.
func typeOf(in *inspect.Report) string {
	if in.Kind.Key == nil || in.Payload == nil {
		return in.Kind.Name
	}
	return in.Kind.Name + " " + in.Kind.Key(in.Payload.Params).Kind().Name
}

// waitsFor returns the wait-for graph of the locks, and of the keys that were read of families among them.
func waitsFor(locks []*inspect.Report) *inspect.Waits {
	var all []*inspect.Report
	for _, in := range locks {
		if all = append(all, in); in.Keys != nil {
			all = append(all, in.Keys.Read...)
		}
	}
	return inspect.WaitsFor(all...)
}

// groupDigits writes 10000 as "10,000".
func groupDigits(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// KeysUse says in a few words how the keys of a family are used, how many were looked at, and which foreign nodes are in it.
func KeysUse(in *inspect.Report) string {
	k := in.Keys
	if k == nil {
		return "its keys were not looked at"
	}
	text := "no key in use"
	if k.InUse > 0 {
		text = fmt.Sprintf("%s %s in use", groupDigits(k.InUse), view.PluralWord(k.InUse, "key", "keys"))
	}
	if k.Listed < k.Dirs {
		text += fmt.Sprintf(" in %d of %d directories, the others were not listed yet", k.Listed, k.Dirs)
	}
	looked := "; " + groupDigits(k.Looked) + " looked at"
	if k.Queues < k.InUse { // the waiters are only those of the keys that were looked at, so say how many keys these are
		text += looked
	}
	if k.Waited > 0 {
		text += ", " + groupDigits(k.Waited) + " with waiters"
	}
	if k.Queues == k.InUse && k.Looked < k.InUse {
		text += looked
	}
	for _, also := range []struct {
		n    int
		what string
	}{{k.Empty, "left empty"}, {k.Closed, "cannot be read"}, {len(in.Junk), "foreign"}} {
		if also.n > 0 {
			text += fmt.Sprintf(", %s %s", groupDigits(also.n), also.what)
		}
	}
	return text
}

// keyUse says who holds a key, since when, and how many wait.
func (s seen) keyUse(in *inspect.Report) string {
	q := queueOf(in)
	if len(q.holders) != 1 {
		return Use(in)
	}
	holder := s.sight(q.holders[0])
	text := "held by " + holder.Who() + q.share(q.holders[0]) + ", " + holder.Details()
	if n := len(q.waiters); n > 0 {
		text += fmt.Sprintf(", %d waiting", n)
	}
	return text
}

// keyExcesses are the limits that keys of a family exceed. For each limit it has the key that exceeds it for longest.
func keyExcesses(in *inspect.Report, now time.Time) (out []Excess) {
	for _, key := range in.Keys.Read {
		for _, x := range Exceeded(key, now) {
			i := slices.IndexFunc(out, func(y Excess) bool { return y.Limit == x.Limit })
			if i < 0 {
				i, out = len(out), append(out, Excess{})
			}
			n := out[i].Keys + 1
			if x.Age > out[i].Age {
				out[i], out[i].Key = x, key
			}
			out[i].Keys = n
		}
	}
	slices.SortFunc(out, func(a, b Excess) int { return strings.Compare(a.Limit, b.Limit) })
	return out
}

// beyondLimit says for how long the contender beyond the limit has held or waited. For a family it names the key, and counts the
// keys beyond the limit.
func (x Excess) beyondLimit() string {
	switch {
	case x.Key == nil:
		return x.Age.String()
	case x.Keys == 1:
		return fmt.Sprintf("%s for %s", KeyName(x.Key.Key), x.Age)
	}
	return fmt.Sprintf("%d keys, %s for %s", x.Keys, KeyName(x.Key.Key), x.Age)
}

// emptyLines are about empty nodes, which undeclared locks left behind.
func emptyLines(all []scan.Empty, prefix string) (lines []string) {
	if len(all) == 0 {
		return nil
	}
	var paths []string
	var newest time.Time
	known := 0
	for _, e := range all {
		if paths = append(paths, view.Clean(e.Path)); e.Before.IsZero() {
			continue
		}
		if known++; e.Before.After(newest) {
			newest = e.Before
		}
	}
	lines = append(lines, fmt.Sprintf("%s below %s %s empty and not declared: %s.", view.Plural(len(all), "node"), view.Clean(prefix), view.PluralWord(len(all), "is", "are"), view.FirstFew(paths)))
	since := "Since when is not known"
	switch {
	case known == len(all) && known == 1:
		since = fmt.Sprintf("It has been empty since before %s", newest.Format(time.RFC3339))
	case known > 0:
		since = fmt.Sprintf("Of %d it is known that they have been empty since before %s", known, newest.Format(time.RFC3339))
	}
	return append(lines, since+". Programs that make their own locks leave such nodes: delete those that no program uses any more, with zkCli.sh.")
}

// keysDoc is the part of -json that only a family has. WithWaiters counts keys whose queues are known. Busiest and Longest are
// among the keys that were looked at.
type keysDoc struct {
	InUse       int      `json:"in_use"`
	QueuesKnown int      `json:"queues_known"`
	WithWaiters int      `json:"with_waiters"`
	LookedAt    int      `json:"looked_at"`
	Empty       int      `json:"empty"`
	Unreadable  int      `json:"unreadable"`
	Directories int      `json:"directories,omitempty"`
	Listed      int      `json:"directories_listed,omitempty"`
	Busiest     *lockDoc `json:"busiest,omitempty"`
	Longest     *lockDoc `json:"longest_held,omitempty"`
}

func (s seen) keysDoc(k *inspect.Keys) *keysDoc {
	if k == nil {
		return nil
	}
	key := func(in *inspect.Report) *lockDoc {
		if in == nil {
			return nil
		}
		d := s.lockDoc(in)
		return &d
	}
	return &keysDoc{k.InUse, k.Queues, k.Waited, k.Looked, k.Empty, k.Closed, k.Dirs, k.Listed, key(k.Busiest), key(k.Longest)}
}
