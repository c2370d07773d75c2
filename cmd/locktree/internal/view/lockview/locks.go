package lockview

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

// deadlocks go to standard output: status is asked for them.
func deadlocks(h *view.Human, w *inspect.Waits) {
	for _, d := range w.Deadlocks {
		h.Out.Printf("%s\n", h.Out.Paint(view.Red)(view.Clean(d.String())))
	}
}

func (l Locks) WriteText(h *view.Human) {
	for i, e := range l.Ensembles {
		now := time.UnixMilli(l.NowMs)
		if i > 0 {
			h.Out.Printf("\n")
		}
		if e.Snapshot == nil {
			showUnknown(h, e.Ensemble, e.Addresses, cmp.Or(e.Error, e.Looking))
			continue
		}
		h.Out.Printf("%s  %s\n", h.Out.Paint(view.Bold)(view.Clean(e.Ensemble)), view.Clean(e.Addresses))
		if e.Error != "" {
			h.Out.Printf("%s\n", h.Out.Paint(view.Red)(fmt.Sprintf("stale since %s (%s): %s", e.Snapshot.At.UTC().Format(time.TimeOnly), now.Sub(e.Snapshot.At).Round(time.Second), view.Clean(e.Error))))
		}
		if e.Looking != "" {
			h.Out.Printf("as of %s (%s). %s\n", e.Snapshot.At.UTC().Format(time.TimeOnly), now.Sub(e.Snapshot.At).Round(time.Second), e.Looking)
		}
		shown := l.Filter.pick(e.Snapshot.Locks, now)
		switch {
		case len(e.Snapshot.Locks)+e.Snapshot.Pending+len(e.Closed()) > 0 || e.Snapshot.Cut: // there are locks, or the lines below say that some were not looked at
		case e.Key != nil:
			h.Out.Printf("\nThe key %s of %s is not in use: it has no node.\n", KeyName(e.Key.Key), view.Clean(e.Key.Family))
		case e.Path == "":
			h.Out.Printf("\nNo lock is declared.\n")
		default:
			h.Out.Printf("\nThere are no locks at or below %s.\n", view.Clean(e.Path))
		}
		idle := map[string][]string{} // names of quiet locks, by the node above them
		for _, in := range shown {
			if above := kind.ParentPath(in.Path); isQuiet(in) {
				idle[above] = append(idle[above], path.Base(in.Path))
			}
		}
		for _, in := range shown {
			above := kind.ParentPath(in.Path)
			if names := idle[above]; isQuiet(in) && len(names) > fewIdle {
				if names[0] == path.Base(in.Path) { // one line for all of them
					h.Out.Printf("\n%s  %d locks idle: %s\n", h.Out.Paint(view.Bold)(view.Clean(above)), len(names), view.Clean(view.FirstFew(names)))
				}
				continue
			}
			h.Out.Printf("\n%s  %s\n%s", h.Out.Paint(view.Bold)(view.Clean(in.Path)), declaredAs(in), view.Table(func(w io.Writer) {
				switch {
				case in.Kind.Key != nil:
					fmt.Fprintf(w, "  keys\t%s\n", KeysUse(in))
				case !inUse(in):
					fmt.Fprintf(w, "  idle\n")
				}
				seen{e.Snapshot, now}.writeQueue(w, "  ", in)
			}))
		}
		h.Out.Printf("\n")
		if e.Snapshot.Pending > 0 {
			h.Out.Printf("%s below %s %s not looked at, because the requests of -reads were used up. Give more, 0 for no limit, or a longer path.\n", view.Plural(e.Snapshot.Pending, "node"), view.Clean(e.Path), view.PluralWord(e.Snapshot.Pending, "was", "were"))
		}
		if e.Snapshot.Cut {
			h.Out.Printf("There are more than 100,000 nodes below %s, or paths longer than 4,096 bytes, and some were not looked at. Give a longer path.\n", view.Clean(e.Path))
		}
		h.Out.Printf("%s%s.\n", l.Filter.tally(shown, e.Snapshot.Locks), notSeen(0, len(e.Closed())))
		if text := Unasked(e.Snapshot); text != "" && len(shown) > 0 {
			h.Out.Printf("%s\n", text)
		}
		deadlocks(h, e.Snapshot.Waits)
		for _, line := range emptyLines(e.Snapshot.Empty, e.Path) {
			h.Out.Printf("%s\n", line)
		}
	}
}

// State returns a text that differs whenever something has happened. The text says who holds and waits, and what could not be read,
// and contains no time.
func (l Locks) State() string {
	var b strings.Builder
	for _, e := range l.Ensembles {
		fmt.Fprintf(&b, "%q %t\n", e.Ensemble, e.Error != "")
		if e.Snapshot == nil {
			continue
		}
		fmt.Fprintf(&b, "%q %d %v %q\n", e.Closed(), e.Snapshot.Pending, e.Snapshot.Cut, e.Snapshot.Waits.Deadlocks)
		now := time.UnixMilli(l.NowMs)
		for _, in := range l.Filter.pick(e.Snapshot.Locks, now) {
			fmt.Fprintf(&b, "%q %q\n", in.Path, declaredAs(in))
			if in.Keys != nil {
				fmt.Fprintln(&b, in.Keys.InUse, in.Keys.Waited)
			}
			for one := range in.Locks {
				for c := range one.Contenders {
					fmt.Fprintf(&b, "%q %q %d %d %t\n", one.Path, c.Name, c.Token, c.Permits, e.Snapshot.Sight(*c, now).Away())
				}
			}
		}
	}
	return b.String()
}

// isQuiet reports whether "idle" says all about a lock.
func isQuiet(in *inspect.Report) bool {
	return !in.Kind.Container && in.Kind.Key == nil && !inUse(in) && (in.Payload == nil || in.Payload.State == kind.StateActive)
}

// forbiddenWords returns which of the four-letter words "dump" and "cons" some server does not allow. Servers answer these words
// with their connections.
func forbiddenWords(snap *scan.Snapshot) (all []string) {
	for _, word := range []string{"dump", "cons"} {
		if slices.ContainsFunc(snap.Servers, func(at words.Server) bool { return slices.Contains(at.Forbids, word) }) {
			all = append(all, word)
		}
	}
	return all
}

// Unasked says which servers did not list their connections, and why; "" if all listed them, or none was asked.
func Unasked(snap *scan.Snapshot) string {
	if snap == nil {
		return ""
	}
	var parts []string
	if words := forbiddenWords(snap); len(words) > 0 {
		parts = append(parts, fmt.Sprintf("Some server does not allow the four-letter words: add %s to 4lw.commands.whitelist.", strings.Join(words, " and ")))
	}
	var others []string
	for _, u := range snap.Unasked {
		if !u.Forbids {
			others = append(others, view.Clean(u.Server)+" ("+view.Clean(u.Why)+")")
		}
	}
	if len(others) > 0 {
		parts = append(parts, "Not reported by "+view.FirstFew(others)+".")
	}
	if len(parts) == 0 {
		return ""
	}
	return "For some clients it is not known whether they are connected, and from where. " + strings.Join(parts, " ")
}

// declaredAs says what the lock is, and where that is declared.
func declaredAs(in *inspect.Report) string {
	if in.Payload == nil {
		return in.Kind.Name + ", not declared: recognised by its contenders"
	}
	what := typeOf(in)
	if in.Family != "" {
		what += ", key " + KeyName(in.Key)
	}
	text := what + ", declared by no stack"
	if owner := in.Payload.Owner; owner.Stack != "" {
		text = fmt.Sprintf("%s, %s of stack %s", what, view.Shorten(view.Clean(owner.Addr), 200), view.Cell(owner.Stack))
	}
	if in.Payload.State != kind.StateActive {
		text += ", " + string(in.Payload.State)
	}
	return text
}

// fewIdle is how many idle locks below one node have a line each.
const fewIdle = 3

// Unread stands for the locks of ensembles that could not be read, with the reasons.
func Unread(lost view.Lost, path string) (out []LocksOf) {
	for _, u := range lost {
		out = append(out, LocksOf{Ensemble: u.Ensemble, Addresses: u.Servers, Path: path, Error: view.Brief(u.Err)})
	}
	return out
}

// Locks are the locks that were looked at, on each ensemble.
type Locks struct {
	Ensembles []LocksOf
	NowMs     int64
	Filter    Filter
	Sources   []Source // what "locktree serve" compares with
}

// Source is a configuration that ensembles are compared with.
type Source struct {
	Stack       string // the directory, if the configuration was never read
	Path        string // of its directory; "" without a configuration
	Files       int
	Fingerprint string // of its files
	Read        time.Time
	Error       string    // why it could not be read again; "" if the files were read as they are now
	Failed      time.Time // since when it could not be read
}

// Compared says how an ensemble differs from a configuration.
type Compared struct {
	Root        string
	Drift       *plan.Plan // nil as long as that is not known
	At          time.Time
	Fingerprint string // of the configuration
}

// LocksOf are the locks of one ensemble.
type LocksOf struct {
	Ensemble  string
	Stack     string // for "locktree serve"
	Addresses string // of its servers, as configured
	Path      string // the locks are at it and below; "" for the declared ones
	Key       *KeyOf // the key whose lock was asked for; nil without a key
	Error     string // why nothing newer could be read
	Looking   string // progress of the look under way
	Compared  *Compared
	Snapshot  *scan.Snapshot // nil if nothing could be read
}

// KeyOf is a key of a family.
type KeyOf struct{ Family, Key string }

// Closed are the paths of nodes that are there and cannot be read.
func (e LocksOf) Closed() (paths []string) {
	for _, u := range e.Snapshot.Unread {
		if !u.Missing() {
			paths = append(paths, u.Path)
		}
	}
	return paths
}

// showUnknown shows an ensemble that could not be read.
func showUnknown(h *view.Human, ensemble, servers, why string) {
	h.Out.Printf("%s  %s\n\n%s\n", h.Out.Paint(view.Bold)(ensemble), servers, h.Out.Paint(view.Red)(view.Clean(why)))
}
