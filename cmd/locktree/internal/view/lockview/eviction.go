package lockview

import (
	"fmt"
	"io"
	"time"

	"github.com/locktree/locktree/apply/evict"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// Eviction is a contender that is asked to give up its lock or its place in the queue (revoke), or loses it (break).
type Eviction struct {
	Ensemble    string
	Addresses   string
	Breaks      bool
	In          *inspect.Report
	Acquisition evict.Acquisition
	Snapshot    *scan.Snapshot // what is known of sessions
	Done        *evict.Evicted // nil before the question
}

func (e Eviction) sight() kind.Sight { return e.Snapshot.Sight(e.Acquisition.Party, time.Now()) }

func (e Eviction) who() string { return e.sight().Who() }

func (e Eviction) WriteText(h *view.Human) {
	if e.Done != nil {
		h.Out.Printf("\n%s\n", e.outcome())
		return
	}
	c := e.Acquisition.Party
	for _, p := range e.Acquisition.Nodes {
		if p.Path != c.Path {
			c.Permits += p.Permits
		}
	}
	role, beside := "held by", queueOf(e.In).share
	if e.Acquisition.Queued {
		role, beside = "waiting", wish
	}
	h.Out.Printf("%s  %s\n\n%s  %s\n%s", h.Out.Paint(view.Bold)(view.Clean(e.Ensemble)), view.Clean(e.Addresses), view.Clean(e.In.Path), declaredAs(e.In), view.Table(func(w io.Writer) {
		fmt.Fprintf(w, "  %s\t%s%s%s\n", role, view.Cell(e.who()), beside(c), columns(e.sight()))
	}))
	if len(e.Acquisition.Others) > 0 {
		h.Out.Printf("\nIt took these locks in the same transaction, and loses them too:\n")
		for _, p := range e.Acquisition.Others {
			h.Out.Printf("  %s\n", view.Clean(kind.ParentPath(p.Path)))
		}
	}
	if e.Acquisition.Blind {
		h.Out.Printf("\nSome locks of the ensemble could not be read. If it took them in the same transaction, it has them until it notices.\n")
	}
	h.Out.Printf("\n%s\n", e.risk())
}

// risk says what may happen, before a person agrees to it.
func (e Eviction) risk() string {
	const ours = "A program of this library"
	who := e.who()
	switch {
	case e.Breaks && e.Acquisition.Session == 0:
		return fmt.Sprintf("%s belongs to no session: it stays until it is removed, and no program loses anything.", who)
	case e.Breaks && e.Acquisition.Queued:
		return fmt.Sprintf("%s loses its place; all others keep theirs. %s reports that as an error, and may queue again. Clients of\n"+
			"other libraries may go on waiting for a place that they no longer have.", who, ours)
	case e.Breaks:
		return fmt.Sprintf("%s is not stopped. Its program keeps running until it notices: at once if it is connected, otherwise within its\n"+
			"session timeout. Programs without this library may never notice. Meanwhile another program may get the lock. A store that\n"+
			"checks fencing tokens refuses its token, %d, once it has seen the next holder's. Its other writes are not refused: if you\n"+
			"can, end the program first. Waiters keep their places.", who, e.Acquisition.Token)
	case e.Acquisition.Queued:
		return fmt.Sprintf("%s is asked to leave the queue. %s obeys. Others may ignore the request, and \"locktree break\" removes their place.\n"+
			"The request replaces the waiter's name in its node.", who, ours)
	}
	return fmt.Sprintf("%s is asked to give the lock back, and keeps it with its token, %d, until it does. The lease's context ends\n"+
		"in a program of this library. A program of Curator obeys if it made its lock revocable; others ignore the request. The request\n"+
		"replaces the holder's name in its node. \"locktree break\" takes the lock away from a program that does not obey.", who, e.Acquisition.Token)
}

// outcome is what was done.
func (e Eviction) outcome() string {
	var text string
	switch who, lock := e.who(), view.Clean(e.In.Path); {
	case e.Done.Gone():
		return fmt.Sprintf("%s had left %s by itself. Nothing was written.", who, lock)
	case !e.Breaks:
		text = fmt.Sprintf("%s was asked to give %s back. \"locktree status %s\" shows whether it did.", who, lock, lock)
	case e.Acquisition.Queued:
		text = fmt.Sprintf("%s has no place in the queue of %s any more.", who, lock)
	default:
		text = fmt.Sprintf("%s no longer holds %s. Its token was %d, and its program may still run.", who, lock, e.Acquisition.Token)
	}
	if e.Done.Why != "" {
		return text + "\n" + view.NotRecorded + view.Clean(e.Done.Why) + "."
	}
	return text
}

// evictionDoc is the -json of revoke and break.
type evictionDoc struct {
	FormatVersion string     `json:"format_version"`
	Operation     string     `json:"operation"`
	Ensemble      string     `json:"ensemble"`
	Lock          string     `json:"lock"`
	Waited        bool       `json:"waited"`
	Contender     kind.Sight `json:"contender"`
	Others        []string   `json:"other_locks"` // of the same transaction
	Blind         bool       `json:"others_unknown"`
	Gone          bool       `json:"had_left"`
	Nodes         []string   `json:"nodes"` // removed, or written to
	History       string     `json:"history,omitempty"`
	Unrecorded    string     `json:"unrecorded,omitempty"`
}

func (e Eviction) WriteJSON(m *view.Machine) {
	d := evictionDoc{FormatVersion: "1.0", Operation: "revoke", Ensemble: e.Ensemble, Lock: e.In.Path, Waited: e.Acquisition.Queued, Others: []string{}, Blind: e.Acquisition.Blind,
		Gone: e.Done.Gone(), Contender: e.sight(), Nodes: document.List(e.Done.Nodes), History: e.Done.History, Unrecorded: e.Done.Why}
	if e.Breaks {
		d.Operation = "break"
	}
	for _, p := range e.Acquisition.Others {
		d.Others = append(d.Others, kind.ParentPath(p.Path))
	}
	m.Document(d)
}
