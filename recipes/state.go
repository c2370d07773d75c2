package recipes

import (
	"context"
	"sync"
)

// clientState is what the recipes keep per Client; its zero value is ready. Its mutex is never held across a request:
// everything that waits, waits on channels.
//
// Locks are taken in this order: Client.mu, clientState.mu, then a Session's or a holding's (never both), then hosts' and
// the guard's. So a session, or a holding, that has news for the recipes lets go of its own first. Leases' contexts are
// cancelled with none of the last four held, and Observers called with none at all.
type clientState struct {
	mu       sync.Mutex
	local    map[string]*localQueue  // by lock
	readers  map[string]*holding     // read locks held that others may share, by lock
	decls    map[string]*declaration // declarations read, by lock node
	maxDecls int                     // how many are kept, if not maxDeclarations: tests have few
	crowd    int                     // from how many contenders on a queue is long, if not longQueue: tests have few
	pins     map[string]int          // calls under way that need the declaration, by lock node
	loading  map[string]chan struct{}
	janitors map[*Session]*janitor // until the session is known to have ended, on the servers too
	cleared  chan struct{}         // closed when the clearing that is under way has ended; nil while none is

	work    sync.Mutex // guards what follows; taken with mu held, never the other way round
	running int
	idle    *sync.Cond // running has fallen to 0; nil while nobody waits
}

// spawn runs f in a goroutine that join waits for. Everything spawned ends soon after its session does. Not a
// sync.WaitGroup: a call of Lock may still spawn while Close waits.
func (st *clientState) spawn(f func()) {
	st.work.Lock()
	st.running++
	st.work.Unlock()
	go func() {
		defer st.finished()
		f()
	}()
}

func (st *clientState) finished() {
	st.work.Lock()
	defer st.work.Unlock()
	if st.running--; st.running == 0 && st.idle != nil {
		st.idle.Broadcast()
	}
}

// join waits until every goroutine of the recipes has ended; for Close, after all sessions are Lost. What a call that
// is still under way starts later finds its session lost and ends at once.
func (st *clientState) join() {
	st.work.Lock()
	defer st.work.Unlock()
	if st.idle == nil {
		st.idle = sync.NewCond(&st.work)
	}
	for st.running > 0 {
		st.idle.Wait()
	}
}

// janitor returns the session's janitor. The first call for a session also arranges that all that belongs to the session is
// forgotten when it ends: of a session that is over already at once. The janitor stays until nothing of the session is left on
// the servers.
func (st *clientState) janitor(s *Session) *janitor {
	st.mu.Lock()
	defer st.mu.Unlock()
	j := st.janitors[s]
	if j != nil {
		return j
	}
	if st.janitors == nil {
		st.janitors = map[*Session]*janitor{}
	}
	j = &janitor{s: s, st: st, kick: make(chan struct{}, 1)}
	st.janitors[s] = j
	st.spawn(func() {
		j.follow()
		j.rest()
		st.mu.Lock()
		defer st.mu.Unlock()
		for path, d := range st.decls {
			if d.s == s {
				st.forget(path)
			}
		}
	})
	return j
}

// detached is a context for work that must go on when its caller has gone: it keeps ctx's values and ends after the
// longest time a session can survive without its server, so that nothing waits on a wedged link for ever.
func detached(ctx context.Context, s *Session) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout())
}
