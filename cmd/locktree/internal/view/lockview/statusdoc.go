package lockview

import (
	"time"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// statusDoc is the -json of status, and what the page serves to programs.
type statusDoc struct {
	FormatVersion  string         `json:"format_version"`
	Timestamp      document.Stamp `json:"timestamp"` // when the locks were looked at: "locktree serve" gives one document to many readers
	Filter         filterDoc      `json:"filter,omitzero"`
	Ensembles      []ensembleDoc  `json:"ensembles"`
	Configurations []sourceDoc    `json:"configurations,omitempty"`
}

type sourceDoc struct {
	Stack       string         `json:"stack"`
	Path        string         `json:"path"`
	Fingerprint string         `json:"fingerprint"`
	Read        document.Stamp `json:"read"`
	Error       string         `json:"error"`
}

func newStatusDoc(nowMs int64, f Filter) statusDoc {
	return statusDoc{FormatVersion: "1.6", Timestamp: document.Stamp{Time: time.UnixMilli(nowMs)}, Filter: filterDoc{f.InUse, f.Owner, f.Longer.Milliseconds()}, Ensembles: []ensembleDoc{}}
}

// ensembleDoc has those parts that are known.
type ensembleDoc struct {
	Ensemble string `json:"ensemble"`
	Servers  string `json:"servers"`
	Path     string `json:"path,omitempty"`
	Root     string `json:"root,omitempty"`
	Stack    string `json:"stack,omitempty"`
	Error    string `json:"error,omitempty"` // why nothing newer is known
	*queuesDoc
	*lookDoc
	*treeDoc
	*driftDoc
}

type queuesDoc struct {
	Locks     []lockDoc     `json:"locks"`
	Waits     []waitDoc     `json:"waits"`
	Deadlocks []deadlockDoc `json:"deadlocks"`
}

// lookDoc describes a look.
type lookDoc struct {
	Closed         []string       `json:"closed"`
	Missing        []string       `json:"missing"`
	Cut            bool           `json:"cut"`
	At             document.Stamp `json:"at"`
	Zxid           int64          `json:"zxid"`
	WordsForbidden []string       `json:"words_forbidden"`
	NotAsked       []unaskedDoc   `json:"not_asked"`
	Empty          []emptyDoc     `json:"empty,omitempty"` // empty nodes of undeclared locks
}

type emptyDoc struct {
	Path   string         `json:"path"`
	Before document.Stamp `json:"since_before"`
}

func emptyDocs(all []scan.Empty) (out []emptyDoc) {
	for _, e := range all {
		out = append(out, emptyDoc{e.Path, document.Stamp{Time: e.Before}})
	}
	return out
}

type unaskedDoc struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

// treeDoc has what only a read of the stack's tree shows.
type treeDoc struct {
	Unreadable []gapDoc       `json:"unreadable"`
	Unmanaged  []string       `json:"unmanaged"`
	NotRead    map[string]int `json:"not_read,omitempty"` // by namespace
}

type gapDoc struct {
	Address plan.Addr `json:"address"`
	Path    string    `json:"path"`
	Reason  string    `json:"reason"`
	Type    string    `json:"type"`
}

// driftDoc says how an ensemble differs from a configuration.
type driftDoc struct {
	Changes struct {
		Add    int `json:"add"`
		Change int `json:"change"`
		Remove int `json:"remove"`
	} `json:"changes"`
	Applyable bool            `json:"applyable"` // otherwise a plan says why not
	Compared  *document.Stamp `json:"compared,omitempty"`
	With      string          `json:"compared_with,omitempty"`
}

func newDriftDoc(p *plan.Plan) *driftDoc {
	var d driftDoc
	c := p.Summary()
	d.Changes.Add, d.Changes.Change, d.Changes.Remove, d.Applyable = c.Add, c.Change, c.Destroy, p.Applyable()
	return &d
}

type lockDoc struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Declared bool   `json:"declared"`
	Address  string `json:"address,omitempty"`
	Stack    string `json:"stack,omitempty"`
	State    string `json:"state,omitempty"`
	document.Usage
	Key      *string  `json:"key,omitempty"`    // of a family
	Family   string   `json:"family,omitempty"` // the path of the key's family
	Keys     *keysDoc `json:"keys,omitempty"`
	Permits  int      `json:"permits,omitempty"`
	MaxHold  string   `json:"max_hold,omitempty"`
	MaxWait  string   `json:"max_wait,omitempty"`
	Owner    string   `json:"owner,omitempty"`
	Runbook  string   `json:"runbook,omitempty"`
	Exceeded []string `json:"exceeded,omitzero"` // present, perhaps empty, if the lock declares a limit
	Once     *onceDoc `json:"once,omitempty"`
}

func (s seen) lockDoc(in *inspect.Report) lockDoc {
	sights := func(cs []recipes.Contender) []kind.Sight {
		out := make([]kind.Sight, len(cs))
		for i, c := range cs {
			out[i] = s.sight(c)
		}
		return document.Placed(out, cs)
	}
	d := lockDoc{Path: in.Path, Type: in.Kind.Name, Declared: in.Payload != nil,
		Usage: document.Usage{Holders: sights(in.Holders), Waiters: sights(in.Waiters), Foreign: document.List(in.Junk)}}
	if in.Family != "" {
		d.Key, d.Family = &in.Key, in.Family
	}
	d.Keys, d.Once = s.keysDoc(in.Keys), newOnceDoc(in, s.at)
	if in.Payload == nil {
		return d
	}
	l := in.Payload.Limits()
	d.Address, d.Stack, d.State = in.Payload.Owner.Addr, in.Payload.Owner.Stack, string(in.Payload.State)
	d.MaxHold, d.MaxWait, d.Owner, d.Runbook = l.MaxHold, l.MaxWait, l.Owner, l.Runbook
	if in.Kind.Permits != nil {
		d.Permits = in.Kind.Permits(in.Payload.Params)
	}
	if l.MaxHold+l.MaxWait != "" {
		d.Exceeded = []string{}
		for _, x := range Exceeded(in, s.at) {
			d.Exceeded = append(d.Exceeded, x.Limit)
		}
	}
	return d
}

// waitDoc is an edge of the wait-for graph: nodes are contenders' paths.
type waitDoc struct {
	Lock    string   `json:"lock"`
	Waiter  string   `json:"waiter"`
	Holders []string `json:"holders"`
	Ahead   []string `json:"ahead"`
	Any     bool     `json:"any"`
}

type deadlockDoc struct {
	Text  string    `json:"text"`
	Steps []stepDoc `json:"steps"`
}

type stepDoc struct {
	Who     string `json:"who"`
	Session string `json:"session"`
	Holds   string `json:"holds"`
	Ahead   bool   `json:"ahead"`
	Waits   string `json:"waits"`
}

func newQueuesDoc(locks []lockDoc, w *inspect.Waits) *queuesDoc {
	d := &queuesDoc{locks, []waitDoc{}, []deadlockDoc{}}
	paths := func(cs []recipes.Contender) []string {
		out := make([]string, len(cs))
		for i, c := range cs {
			out[i] = c.Path
		}
		return out
	}
	for _, e := range w.All {
		d.Waits = append(d.Waits, waitDoc{e.Lock, e.Waiter.Path, paths(e.Held), paths(e.Behind), e.Any})
	}
	for _, found := range w.Deadlocks {
		one := deadlockDoc{found.String(), []stepDoc{}}
		for _, s := range found {
			one.Steps = append(one.Steps, stepDoc{s.Who, document.Session(s.Owner), s.Holds, s.Ahead, s.Waits})
		}
		d.Deadlocks = append(d.Deadlocks, one)
	}
	return d
}

func (s Status) WriteJSON(m *view.Machine) {
	doc := newStatusDoc(s.NowMs, s.Filter)
	for i, tree := range s.Trees {
		nodes, gaps := s.reports(i), read.Gaps(tree, s.Declared[i])
		locks, unreadable := []lockDoc{}, []gapDoc{}
		at := seen{s.look(i), time.UnixMilli(s.NowMs)}
		for _, in := range s.Filter.pick(nodes, at.at) {
			if !in.Kind.Container {
				locks = append(locks, at.lockDoc(in))
			}
		}
		for _, g := range gaps {
			if g.Trouble != "" {
				unreadable = append(unreadable, gapDoc{g.Addr, g.Path, gapText(&g), g.Type})
				continue
			}
			if s.Filter == (Filter{}) {
				locks = append(locks, lockDoc{Path: g.Path, Type: g.Type, Declared: true, Address: string(g.Addr), Stack: tree.Stack, State: "missing", Usage: document.NewUsage(nil)})
			}
		}
		doc.Ensembles = append(doc.Ensembles, ensembleDoc{Ensemble: tree.Ensemble, Servers: s.Servers[i], Root: tree.Root, Stack: tree.Stack,
			queuesDoc: newQueuesDoc(locks, waitsFor(nodes)), treeDoc: &treeDoc{unreadable, document.List(unmanaged(tree, gaps)), tree.Unread}, driftDoc: newDriftDoc(s.Drift[i])})
	}
	for _, u := range s.Lost {
		doc.Ensembles = append(doc.Ensembles, ensembleDoc{Ensemble: u.Ensemble, Servers: u.Servers, Error: view.Brief(u.Err)})
	}
	m.Document(doc)
}

func (l Locks) WriteJSON(m *view.Machine) {
	doc := newStatusDoc(l.NowMs, l.Filter)
	for _, c := range l.Sources {
		if c.Path != "" {
			doc.Configurations = append(doc.Configurations, sourceDoc{c.Stack, c.Path, c.Fingerprint, document.Stamp{Time: c.Read}, c.Error})
		}
	}
	for _, e := range l.Ensembles {
		d := ensembleDoc{Ensemble: e.Ensemble, Stack: e.Stack, Servers: e.Addresses, Path: e.Path, Error: e.Error}
		if c := e.Compared; c != nil {
			if d.Root = c.Root; c.Drift != nil {
				d.driftDoc = newDriftDoc(c.Drift)
				d.Compared, d.With = &document.Stamp{Time: c.At}, c.Fingerprint
			}
		}
		if e.Snapshot != nil {
			d.queuesDoc, d.lookDoc = e.looked(time.UnixMilli(l.NowMs), l.Filter)
		}
		doc.Ensembles = append(doc.Ensembles, d)
	}
	m.Document(doc)
}

// looked is what a look found.
func (e LocksOf) looked(now time.Time, f Filter) (*queuesDoc, *lookDoc) {
	locks := []lockDoc{}
	for _, in := range f.pick(e.Snapshot.Locks, now) {
		locks = append(locks, seen{e.Snapshot, now}.lockDoc(in))
	}
	look := &lookDoc{Closed: document.List(e.Closed()), Missing: []string{}, Cut: e.Snapshot.Cut || e.Snapshot.Pending > 0, At: document.Stamp{Time: e.Snapshot.At}, Zxid: e.Snapshot.Zxid,
		WordsForbidden: document.List(forbiddenWords(e.Snapshot)), NotAsked: []unaskedDoc{}, Empty: emptyDocs(e.Snapshot.Empty)}
	for _, u := range e.Snapshot.Unread {
		if u.Missing() {
			look.Missing = append(look.Missing, u.Path)
		}
	}
	for _, u := range e.Snapshot.Unasked {
		look.NotAsked = append(look.NotAsked, unaskedDoc{u.Server, u.Why})
	}
	return newQueuesDoc(locks, e.Snapshot.Waits), look
}
