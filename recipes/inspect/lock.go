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

// Contender is one place in a queue, of any client. A field is zero if its client does not write it.
type Contender = kind.Party

// NewContender reads a contender in dir from its name, and from its node's data and stat unless they are nil.
func NewContender(dir string, c kind.Contender, data []byte, stat *zk.Stat) Contender {
	return node.NewContender(dir, c, data, stat)
}

// ReadContender reads one contender; nil without an error if it has gone.
func ReadContender(ctx context.Context, s *session.Session, dir string, c kind.Contender) (*Contender, error) {
	return node.ReadContender(ctx, s, dir, c)
}

// Report is the state of the lock at a path, declared or not, with the contenders of every client library.
type Report struct {
	Path    string
	Kind    *kind.Kind    // as declared, or guessed from the contenders; nil if there is nothing to guess from
	Guessed bool          // nothing is declared here
	Payload *kind.Payload // the declaration; nil when there is none
	Why     error         // why there is no declaration; usually kind.ErrForeign
	Holders []Contender   // in order
	Waiters []Contender   // in order
	Junk    []string      // paths of children that are not contenders; the recipes ignore them

	// Family and Key are set for a key: the path of its family, and the key as programs know it. Kind and Payload then come from the
	// family.
	Family, Key string
	// Keys describes the keys of a family that a Scanner has looked at; nil for other kinds. Holders and Waiters are then empty, because
	// each key has its own report in Keys.
	Keys *Keys
	// Job is what is recorded of the slots of a once; nil for other kinds.
	Job *Job
}

// Lock looks at the lock at path: one request for the node, one for each queue, one for each contender, one for the record of a once. It
// writes nothing. For the node of a key, up to three more requests find the family that declares it. For a family, Lock reads only the
// declaration: package scan reads its keys. Lock reads the parts one after another, so the report of a busy lock may show both a holder
// and its successor. It leaves out contenders that leave meanwhile. If the node does not exist the error is zk.ErrNoNode.
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
	if errors.Is(n.Why, kind.ErrForeign) && len(n.Data) == 0 { // the node of a key is empty and foreign too
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

// Locks yields the lock; of a family, those of its keys that were read.
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

// Contenders yields holders and waiters.
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
