package inspect

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/family"
	"github.com/locktree/locktree/recipes/inspect/internal/node"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Contender is one place in a queue, whichever client library created it. A field is zero if the contender's client does not write it.
type Contender = kind.Party

// NewContender reads a contender in dir from its name, and from its node's data and stat unless they are nil.
func NewContender(dir string, c kind.Contender, data []byte, stat *zk.Stat) Contender {
	return node.NewContender(dir, c, data, stat)
}

// ReadContender reads one contender. If the contender has gone, the result is nil without an error.
func ReadContender(ctx context.Context, s *session.Session, dir string, c kind.Contender) (*Contender, error) {
	return node.ReadContender(ctx, s, dir, c)
}

// Report is the state of the lock at a path, declared or not, with the contenders of every client library.
type Report struct {
	Path    string
	Kind    *kind.Kind    // the declared kind, or a guess from the contenders; nil if there is nothing to guess from
	Guessed bool          // the node has no declaration, so Kind is a guess
	Payload *kind.Payload // the declaration; nil when there is none
	Why     error         // why Payload is nil; usually kind.ErrForeign
	Holders []Contender   // in order
	Waiters []Contender   // in order
	Junk    []string      // paths of children that are not contenders; the recipes ignore them

	// Family and Key are set if the lock is a key of a family: Family is the path of the family, and Key is the key as programs name it.
	// Kind and Payload then come from the family.
	Family, Key string
	// Keys describes the keys of a family that a Scanner has looked at; nil for other kinds. In the report of a family, Holders and Waiters
	// are empty. Keys.Read has a report of each key that Keys.Looked counts.
	Keys *Keys
	// Job says which slots of a job were started, if Kind is kind.Once; nil for other kinds.
	Job *Job
}

// Lock looks at the lock at path, and writes nothing. It sends two requests for the node, and one for each sub-node with a queue, for each
// contender, and for the record of a job. For the node of a key, up to three more requests find the family that declares the key. For a
// family, Lock reads only the declaration: package scan reads its keys. Lock reads the parts one after another, so the report of a busy
// lock may show both a holder and its successor. Lock leaves out contenders that leave meanwhile. If the node does not exist, the error is
// zk.ErrNoNode.
func Lock(ctx context.Context, c session.Source, path string) (*Report, error) {
	if err := kind.ValidatePath(path); err != nil {
		return nil, errs.Errorf("recipes: inspect: %w", err)
	}
	s, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	n, err := node.Read(ctx, s, path)
	if err != nil {
		return nil, err
	}
	in := &Report{Path: path, Payload: n.Payload, Why: n.Why}
	if path == "/" { // the root cannot be a lock
		return in, nil
	}
	if errors.Is(n.Why, kind.ErrForeign) && len(n.Data) == 0 { // a key's node has no data and no declaration: does a family above declare the key?
		of, err := family.Above(ctx, s, path, func() {})
		if err != nil {
			return nil, err
		}
		if key, ok := of.KeyAt(path); ok {
			n.Payload, in.Payload, in.Why, in.Family, in.Key = of.Key, of.Key, nil, of.Path, key
		}
	}
	err = n.Recognise(ctx, s)
	in.Kind, in.Guessed, in.Holders, in.Waiters, in.Junk = n.Kind, n.Payload == nil, n.Holders, n.Waiters, n.Junk
	if err == nil {
		in.Job, err = ReadJob(ctx, s, path, in.Kind, in.Payload)
	}
	return in, err
}

// Busy reports whether a lock has holders or waiters, or a family has keys in use.
func (in *Report) Busy() bool {
	return in != nil && (len(in.Holders)+len(in.Waiters) > 0 || in.Keys != nil && in.Keys.InUse > 0)
}

// Locks yields the report of the lock itself, or, for a family, the reports of the keys that were read.
func (in *Report) Locks(yield func(*Report) bool) {
	if in.Keys == nil {
		yield(in)
		return
	}
	for _, key := range in.Keys.Read {
		if !yield(key) {
			return
		}
	}
}

// Contenders yields the holders and the waiters of each lock that Locks yields.
func (in *Report) Contenders(yield func(*Contender) bool) {
	for lock := range in.Locks {
		for _, cs := range [][]Contender{lock.Holders, lock.Waiters} {
			for i := range cs {
				if !yield(&cs[i]) {
					return
				}
			}
		}
	}
}
