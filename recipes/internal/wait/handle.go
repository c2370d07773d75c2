package wait

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// handle is how a caller wants a lock.
type Handle struct {
	declare.Name
	Shared bool
	Id     string // whom its nodes name
}

// decides is the queue that decides who holds.
func (q *Handle) Decides() kind.Queue { return q.Kind.Queues[0] }

// entrance is the queue in which to wait: the gate, where the kind has one.
func (q *Handle) Entrance() kind.Queue { return q.Kind.Queues[len(q.Kind.Queues)-1] }

// dir is where the contenders of the deciding queue are.
func (q *Handle) Dir() string { return q.Decides().Dir(q.Path) }

// contender makes a contender that does not exist yet.
func (q *Handle) Contender(s *znode.Session, d *declare.Declaration, in kind.Queue, about kind.Holder) (*znode.Node, error) {
	marker, err := znode.MarkerOf(in, d.Wire, q.Shared)
	if err != nil {
		return nil, fmt.Errorf("recipes: %s: %w", q.Path, err)
	}
	return &znode.Node{
		E: s, Dir: in.Dir(q.Path), Prefix: znode.ProtectedPrefix(d.Wire, marker, znode.NewUUID()), Id: about.ID,
		Data: znode.NodeData(in, about), Acl: d.ACL, Flags: zk.FlagEphemeral | zk.FlagSequence,
	}, nil
}

// verdict is what a listing says about our contender.
type Verdict struct {
	Granted  bool
	Behind   string // child to wait for; "" = any change
	before   string // the one ahead of that, if behind is right ahead of us
	head     bool   // behind is the front of the queue
	Position int    // contenders ahead
	waiters  int    // of them, not granted
	total    int    // contenders, with those behind
	first    *kind.Contender
}

// errNotListed: our own contender is not in the list. It is never read as "nobody is ahead" (go-zookeeper's Lock does).
var ErrNotListed = errors.New("our contender is not in the queue")

// decide asks the kind about the contender called name, of all those in its queue. (A verdict is large: it is made where it is
// needed, and not handed through the frames between.)
func (v *Verdict) Decide(k kind.Queue, p kind.Params, children []string, name string) error {
	line, _ := kind.SortContenders(children) // junk is nobody's place: neither waited for nor counted
	i := slices.IndexFunc(line, func(c kind.Contender) bool { return c.Name == name })
	if i < 0 {
		return ErrNotListed
	}
	admitted, behind := k.Admit(p, line, i)
	*v = Verdict{Granted: admitted, Position: i, first: &line[0], total: len(line)}
	if admitted {
		return nil
	}
	if behind != kind.AnyChange {
		v.Behind, v.head = line[behind].Name, behind == 0
		if 0 < behind && behind == i-1 {
			v.before = line[i-2].Name
		}
	}
	for j := range i {
		if admitted, _ := k.Admit(p, line, j); k.Gate || !admitted { // of a gate the first waits too
			v.waiters++
		}
	}
	return nil
}
