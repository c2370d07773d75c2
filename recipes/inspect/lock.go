package inspect

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Report is the state of the lock at a path, whoever declared it and whoever uses it.
type Report struct {
	Path    string
	Kind    *kind.Kind    // as declared; if not, guessed from the contenders; nil when there is nothing to guess from
	Guessed bool          // nothing is declared here
	Payload *kind.Payload // the declaration; nil when there is none
	Why     error         // why there is none; kind.ErrForeign is the usual case
	Holders []Contender   // in order
	Waiters []Contender   // in order
	Junk    []string      // paths of children that are not contenders; the recipes ignore them

	// Of a key: the path of its family, and the key as programs know it. Kind and Payload are what the family declares of its keys.
	Family, Key string
	// Keys are those of a family that a Scanner has looked at, nil for other kinds. Holders and Waiters are then those of no key.
	Keys *Keys
	// Job is what is recorded of the slots of a once; nil for other kinds.
	Job *Job

	kazoo int // the permits of a semaphore of kazoo's; 0 if it is none
	most  int // contenders to read of each queue, the first ones; 0 for all
}

// provider provides a session: a *recipes.Client.
type provider = session.Source

// maxReads is how many contenders are read concurrently.
const maxReads = 16

// Lock looks at the lock at path: one request for the node, one for each of its queues, one for each contender. It
// writes nothing. The node of a key is looked at as its family declares, which costs up to three requests more; of a family itself, only
// the declaration is read: see [Scanner]. The parts are read one after another, so the report of a busy lock may show both a holder and its
// successor; contenders that leave meanwhile are left out. If the node does not exist the error is zk.ErrNoNode.
func Lock(ctx context.Context, c provider, path string) (*Report, error) {
	return lock(ctx, c, path, 0)
}

func lock(ctx context.Context, c provider, path string, most int) (*Report, error) {
	if err := kind.ValidatePath(path); err != nil {
		return nil, errs.Errorf("recipes: inspect: %w", err)
	}
	s, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	n, err := readNode(ctx, s, path)
	if err != nil {
		return nil, err
	}
	if path == "/" { // which cannot be a lock
		return &n.Report, nil
	}
	if errors.Is(n.Why, kind.ErrForeign) && len(n.data) == 0 { // as the nodes of keys are
		of, err := familyAbove(ctx, s, path, func() {})
		if err != nil {
			return nil, err
		}
		if of.has(path) {
			n.Report = *of.report(path)
		}
	}
	n.most = most
	return &n.Report, n.recognise(ctx, s)
}

// read fills in holders and waiters.
func (in *Report) read(ctx context.Context, s *session.Session, params kind.Params, children []string) error {
	if in.kazoo > 0 {
		waiting, _, err := s.Children(ctx, in.Path+kazooQueue)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return in.fillKazoo(children, waiting, func(dir string) reading {
			return func(k kind.Contender) (*Contender, error) { return ReadContender(ctx, s, dir, k) }
		})
	}
	// Read all queues before judging any, and the permits before the antechamber: a Curator client that is granted its
	// permit in between has left the antechamber by then, and counts as the holder it has become.
	lines := make([][]Contender, len(in.Kind.Queues))
	for i, q := range in.Kind.Queues {
		dir, names := q.Dir(in.Path), children
		if q.Child != "" {
			var err error
			if names, _, err = s.Children(ctx, dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		line, junk, err := contenders(dir, names, in.first(dir, names, func(k kind.Contender) (*Contender, error) { return ReadContender(ctx, s, dir, k) }))
		if err != nil {
			return err
		}
		in.junk(dir, junk)
		lines[i] = line
	}
	in.judge(params, lines)
	return nil
}

// judge sorts the contenders of all queues into holders and waiters.
func (in *Report) judge(params kind.Params, lines [][]Contender) {
	if in.Guessed {
		params = nil
	}
	seen := make([][]kind.Seen, len(lines))
	for i, line := range lines {
		for _, c := range line {
			k, _ := kind.ParseContender(c.Name)
			seen[i] = append(seen[i], kind.Seen{Contender: k, Session: c.Session, Data: c.Data})
		}
	}
	for i, verdicts := range in.Kind.Judge(params, seen) {
		for j, v := range verdicts {
			c := lines[i][j]
			if c.Permits = v.Permits; v.Holds {
				c.Candidate = in.Kind.Kept && c.Held.IsZero()
				in.Holders = append(in.Holders, c)
			} else {
				in.Waiters = append(in.Waiters, c)
			}
		}
	}
}

// junk notes the children of dir that are neither contenders nor part of the layout. A namespace has none: its children may
// have any name.
func (in *Report) junk(dir string, names []string) {
	for _, name := range names {
		if in.Kind != nil && (in.Kind.Container || dir == in.Path && slices.Contains(in.Kind.Children, name)) {
			continue
		}
		in.Junk = append(in.Junk, kind.JoinPath(dir, name))
	}
}

// reading reads one contender; nil if it has gone.
type reading func(kind.Contender) (*Contender, error)

// contenders reads the contenders among the children of dir, in order; those that have gone are left out.
func contenders(dir string, children []string, read reading) ([]Contender, []string, error) {
	queue, junk := kind.SortContenders(children)
	out, err := readAll(dir, queue, read)
	return out, junk, err
}

// first reads only those that are to be read. Of the others it says what their names do.
func (in *Report) first(dir string, children []string, read reading) reading {
	queue, _ := kind.SortContenders(children)
	if in.most == 0 || len(queue) <= in.most {
		return read
	}
	last := queue[:in.most]
	return func(k kind.Contender) (*Contender, error) {
		if slices.ContainsFunc(last, func(of kind.Contender) bool { return of.Name == k.Name }) {
			return read(k)
		}
		c := NewContender(dir, k, nil, nil)
		return &c, nil
	}
}

func readAll(dir string, queue []kind.Contender, read reading) ([]Contender, error) {
	found := make([]*Contender, len(queue))
	failed := make([]error, len(queue))
	together(maxReads, len(queue), func(i int) { found[i], failed[i] = read(queue[i]) })
	if err := errors.Join(failed...); err != nil {
		return nil, errs.Errorf("recipes: inspect %s: %w", dir, err)
	}
	var out []Contender
	for _, c := range found {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out, nil
}

// ReadContender reads one contender; nil without an error if it has gone.
func ReadContender(ctx context.Context, s *session.Session, dir string, k kind.Contender) (*Contender, error) {
	c := NewContender(dir, k, nil, nil)
	data, stat, err := s.Get(ctx, c.Path)
	if errors.Is(err, zk.ErrNoAuth) {
		// We may not read its data, but many servers tell everybody that it exists, and whose it is.
		if stat, err = s.Exists(ctx, c.Path); errors.Is(err, zk.ErrNoAuth) {
			return &c, nil // this one only tells that it exists: its name is all we know
		}
	}
	if errors.Is(err, zk.ErrNoNode) || err == nil && stat == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c = NewContender(dir, k, data, stat)
	return &c, nil
}

// Busy reports whether somebody holds the lock or waits for it; of a family, whether keys are in use.
func (in *Report) Busy() bool {
	return in != nil && (len(in.Holders)+len(in.Waiters) > 0 || in.Keys != nil && in.Keys.InUse > 0)
}

// equal reports whether two reports say the same.
func (in *Report) equal(old *Report) bool {
	same := func(a, b Contender) bool {
		return a.Path == b.Path && a.Token == b.Token && a.Session == b.Session && a.Permits == b.Permits && bytes.Equal(a.Data, b.Data)
	}
	return old != nil && in.Keys.idle() && old.Keys.idle() && in.Kind == old.Kind && in.Payload == old.Payload &&
		slices.EqualFunc(in.Holders, old.Holders, same) && slices.EqualFunc(in.Waiters, old.Waiters, same) && slices.Equal(in.Junk, old.Junk) && reflect.DeepEqual(in.Job, old.Job)
}
