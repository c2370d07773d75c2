package recipes

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// program are the nested waits of one program that count. Its clients know of each other's without a request, of those also that
// cannot be told in a node.
type program struct {
	mu    sync.Mutex
	waits map[*nested]struct{}
}

var thisProgram = &program{waits: map[*nested]struct{}{}}

// program is the one that the client is of.
func (st *clientState) program() *program { return cmp.Or(st.other, thisProgram) }

func (p *program) all() []*nested {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.waits))
}

// waits is what is said of the wait.
func (n *nested) waits() (all []kind.Wait) {
	n.mu.Lock()
	places := slices.Collect(maps.Values(n.places))
	for _, at := range places {
		n.lives = n.lives || at.behind
	}
	n.mu.Unlock()
	for _, at := range places {
		if at.node == "" {
			at.node, at.token = at.q.standsFor()
		}
		if at.node != "" {
			all = append(all, kind.Wait{Lock: at.q.path, Node: at.node, Token: uint64(at.token), Behind: at.behind})
		}
	}
	return all
}

// standsFor is the contender that this client has in the queue; "" if there is none.
func (q *queue) standsFor() (path string, czxid int64) {
	st := &q.c.state
	st.mu.Lock()
	e := st.epoch
	st.mu.Unlock()
	if e == nil {
		return "", 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, path := range e.nodes {
		of, _ := kind.ParseContender(kind.BaseName(path)) // k.name may be about to be written, while path is ""
		if path != "" && of.Shared == q.shared && (k.dir == q.entrance().Dir(q.path) || k.dir == q.dir()) {
			return path, k.czxid
		}
	}
	return "", 0
}

// told are the waits, by the contender that those hold who wait.
func (p *program) told() map[string][]claim {
	all := map[string][]claim{}
	for _, n := range p.all() {
		waits := n.waits()
		for _, l := range n.leases {
			if l.ended() != nil {
				continue
			}
			for _, k := range l.h.speakers() {
				for _, w := range waits {
					all[k.path] = append(all[k.path], claim{w, n.c})
				}
			}
		}
	}
	return all
}

// claim is a wait, and the client that waits.
type claim struct {
	kind.Wait
	c *Client
}

// tell says in the nodes of the leases for what those wait who hold them. What fails is said at the next look.
func (n *nested) tell() {
	for _, l := range n.leases {
		_ = l.h.tell(n.ctx)
	}
}

// untell takes back what would be true no more: that somebody waits for a contender that is another's. A place of the call's own goes with
// the call, or was granted. It does not wait long for servers that do not answer.
func (n *nested) untell() {
	n.mu.Lock()
	lives := n.lives
	n.mu.Unlock()
	for _, l := range n.leases {
		if lives {
			select {
			case <-l.h.retell():
			case <-time.After(l.h.e.s.Timeout() / 6):
			}
		}
	}
}

// speakers are the contenders that tell: of a set that of each lock, of permits the first.
func (h *holding) speakers() []*contender {
	if h.members != nil {
		return h.ks
	}
	return h.ks[:1]
}

// tell writes what is said into the nodes, unless that is said already. Candidates' nodes, and those with kazoo's names, say nothing:
// their form is other libraries'.
func (h *holding) tell(ctx context.Context) error {
	h.mu.Lock()
	if !h.told {
		h.told, h.telling = true, make(chan struct{}, 1)
	}
	telling := h.telling
	h.mu.Unlock()
	select {
	case telling <- struct{}{}: // else what one has found out earlier could be written later
		defer func() { <-telling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var says []kind.Wait
	for _, c := range h.q.c.state.program().told()[h.ks[0].path] {
		says = append(says, c.Wait)
	}
	slices.SortFunc(says, func(a, b kind.Wait) int { return cmp.Compare(a.Node, b.Node) })
	says = says[:min(len(says), kind.MaxWaits)]
	h.mu.Lock()
	speaks := h.state == held && !slices.Equal(h.says, says)
	h.mu.Unlock()
	if !speaks {
		return nil
	}
	var err error
	for i, k := range h.speakers() {
		if strings.HasPrefix(k.prefix, "_c_") && !h.locks()[i].decides().Plain {
			err = cmp.Or(k.tell(ctx, says), err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.says = says; err != nil {
		h.says = unknown // the next one tells again
	}
	return err
}

// retell says anew for what those wait who hold it, when somebody waits no more or has given a lease back, however long the servers
// do not answer. The channel is closed when it is said, or does not matter any more.
func (h *holding) retell() <-chan struct{} {
	done := make(chan struct{})
	h.mu.Lock()
	told := h.told
	h.mu.Unlock()
	if !told { // whoever tells later finds out later
		close(done)
		return done
	}
	h.q.c.state.spawn(func() {
		defer close(done)
		_ = retry(context.Background(), h.e.s, unwritten, func() error { return h.tell(context.Background()) }) // it fails if the node has gone
	})
	return done
}

// tell writes it into the node, guarded by its version: a grant's mark, and a request to step back, are not overwritten.
func (k *contender) tell(ctx context.Context, says []kind.Wait) error {
	data, stat, err := k.e.s.Get(ctx, k.path)
	if err != nil || stat.EphemeralOwner != k.e.s.ID() {
		return err
	}
	said, ok := kind.ParseHolder(data)
	if !ok {
		return nil
	}
	said.Waits = says
	_, err = k.e.s.Set(ctx, k.path, said.Encode(), stat.Version)
	return err
}

// unknown is what a node says if that is not known.
var unknown = []kind.Wait{{}}
