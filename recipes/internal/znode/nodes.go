package znode

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
)

// nodeClient makes and deletes the nodes of one client, in one session after another.
type Client struct {
	mu      sync.Mutex
	newest  *Session
	Lost    lostSessions  // that the servers are not known to have ended
	cleared chan struct{} // closed when the clearing that is under way has ended; nil while none is

	work    sync.Mutex
	running int
	idle    *sync.Cond // running has fallen to 0; nil while nobody waits
}

// nodeSession is what one session has in the tree.
type Session struct {
	c       *Client
	S       *session.Session
	Janitor janitor
	Bytes   atomic.Int64 // of the paths of the session's contenders

	// nodeClient.mu guards these.
	cleared *Session  // of a lost session: through which the nodes that nobody works under were deleted last
	until   time.Time // it is tried to close the lost session until then; zero before the first try

	mu     sync.Mutex
	nodes  map[*Node]string         // those that exist, or may; with their paths where these are known
	timers map[*time.Timer]struct{} // of after
}

// begin notes that s is the newest session; the one before it is lost.
func (st *Client) Begin(s *session.Session) *Session {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.newest != nil {
		st.Lost = append(st.Lost, st.newest)
	}
	e := &Session{c: st, S: s, nodes: map[*Node]string{}, timers: map[*time.Timer]struct{}{}}
	e.Janitor.e = e
	st.newest = e
	return e
}

// each calls f for the nodes whose paths are known, until it returns false.
func (e *Session) each(f func(k *Node, path string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, path := range e.nodes {
		if path != "" && !f(k, path) {
			return
		}
	}
}

// spawn runs f in a goroutine that join waits for. Everything spawned ends soon after its session does. Not a
// sync.WaitGroup: a call of Lock may still spawn while Close waits.
func (st *Client) Spawn(f func()) {
	st.work.Lock()
	st.running++
	st.work.Unlock()
	go func() {
		defer st.finished()
		f()
	}()
}

func (st *Client) finished() {
	st.work.Lock()
	defer st.work.Unlock()
	if st.running--; st.running == 0 && st.idle != nil {
		st.idle.Broadcast()
	}
}

// join waits until every goroutine of the recipes has ended; for Close, after all sessions are Lost. What a call that
// is still under way starts later finds its session lost and ends at once.
func (st *Client) Join() {
	st.work.Lock()
	defer st.work.Unlock()
	if st.idle == nil {
		st.idle = sync.NewCond(&st.work)
	}
	for st.running > 0 {
		st.idle.Wait()
	}
}

// exists notes a contender that exists, or may if its path is not known yet.
func (e *Session) exists(k *Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[k] = k.Path
	if strings.HasPrefix(k.Name, k.Prefix) { // they are one string from here on
		k.Prefix = k.Name[:len(k.Prefix)]
	}
}

// forget notes that it does not exist any more.
func (e *Session) forget(k *Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, k)
}

// after has f run when d has passed, unless the session is over by then.
func (e *Session) after(d time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.S.Err() != nil { // else rest comes later
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, runs := e.timers[timer]; runs {
			delete(e.timers, timer)
			e.c.Spawn(f)
		}
	})
	e.timers[timer] = struct{}{}
}

// rest stops the timers, which refer to the session and to the client.
func (e *Session) Rest() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for timer := range e.timers {
		timer.Stop()
	}
	clear(e.timers)
}

// Client is whose session it is.
func (e *Session) Client() *Client { return e.c }
