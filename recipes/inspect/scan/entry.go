package scan

import (
	"bytes"
	"reflect"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// entry is a node that is looked at: a lock, or a node that may contain locks.
type entry struct {
	path    string
	asked   bool      // Options name this node
	lock    bool      // Options.Declared has this node
	leads   bool      // the four-letter word dump lists contenders below this node: see mayBeKey
	look    int       // the number of the last look that read the node
	whole   int       // the number of the last look that read the node with all its queues
	noted   time.Time // when the nodes of all its contenders were last read; zero after a change, so that the entry's next turn reads them
	read    bool
	gone    bool
	mzxid   int64
	czxid   int64
	stat    *zk.Stat // see directory.stat
	payload *kind.Payload
	why     error
	keyed   *familyState // nil if the node is no family
	number  []byte       // the data, if they may be a number
	dirs    []*directory // the node itself, then its queues
	sign    uint64       // a hash of the contenders in the node and its queues, from the word dump
	report  *inspect.Report
	kazoo   bool // the report is of a kazoo semaphore
	err     error
}

// directory is a node whose children may be contenders, as it was last read.
type directory struct {
	path   string
	listed bool
	pzxid  int64
	names  []string
	stat   *zk.Stat // kept only if there is only one look
}

// keepsIn reports whether dir is one of the lock's queues.
func (e *entry) keepsIn(dir string) bool {
	return e.report != nil && slices.ContainsFunc(e.report.Kind.Queues, func(q kind.Queue) bool { return q.Dir(e.path) == dir })
}

// dir returns the directory at path. If the entry has none, dir adds one that is not read yet.
func (e *entry) dir(path string) *directory {
	for _, d := range e.dirs {
		if d.path == path {
			return d
		}
	}
	d := &directory{path: path}
	e.dirs = append(e.dirs, d)
	return d
}

// show sets the entry's report to latest. If the old report says the same, it stays, with the same pointer.
func (e *entry) show(latest *inspect.Report) {
	alike := func(a, b inspect.Contender) bool {
		return a.Path == b.Path && a.Token == b.Token && a.Session == b.Session && a.Permits == b.Permits && bytes.Equal(a.Data, b.Data)
	}
	idle := func(k *inspect.Keys) bool { return k == nil || k.InUse+k.Empty == 0 && k.Listed == k.Dirs }
	old := e.report
	if old == nil || !idle(latest.Keys) || !idle(old.Keys) || latest.Kind != old.Kind || latest.Payload != old.Payload || !reflect.DeepEqual(latest.Job, old.Job) ||
		!slices.EqualFunc(latest.Holders, old.Holders, alike) || !slices.EqualFunc(latest.Waiters, old.Waiters, alike) || !slices.Equal(latest.Junk, old.Junk) {
		e.report = latest
	}
}

// needsListing reports whether the children of the node itself are to be listed. They may be contenders, or locks, or something that does
// not belong there. The parameter walked says that the node is below the prefix.
func (d *directory) needsListing(p *kind.Payload, stat *zk.Stat, walked bool) bool {
	if p == nil {
		return true
	}
	k := p.Params.Kind()
	if k.Container {
		return walked
	}
	return slices.ContainsFunc(k.Queues, func(q kind.Queue) bool { return q.Child == "" }) ||
		stat != nil && (int(stat.NumChildren) != len(k.Children) || len(d.names) > 0)
}
