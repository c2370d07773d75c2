package recipes

import (
	"context"
	"sync"
	"sync/atomic"
)

// clientState is what the recipes keep per Client; its zero value is ready. Its mutex is never held across a request:
// everything that waits, waits on channels.
type clientState struct {
	mu       sync.Mutex
	slots    map[string]*slot        // local queues, by lock
	decls    map[string]*declaration // declarations read, by lock node
	loading  map[string]chan struct{}
	janitors map[*Session]*janitor
	bytes    map[*Session]*atomic.Int64 // ephemeral path bytes
	wg       sync.WaitGroup
}

// spawn runs f in a goroutine that join waits for. Everything spawned ends soon after its session does.
func (st *clientState) spawn(f func()) {
	st.wg.Add(1)
	go func() {
		defer st.wg.Done()
		f()
	}()
}

// join waits until every goroutine of the recipes has ended; for Close, after all sessions are Lost.
func (st *clientState) join() { st.wg.Wait() }

// account returns the session's count of ephemeral path bytes. The first call for a session also arranges that what
// is kept about the session is dropped when it ends.
func (st *clientState) account(s *Session) *atomic.Int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	if a := st.bytes[s]; a != nil {
		return a
	}
	if st.bytes == nil {
		st.bytes, st.janitors = map[*Session]*atomic.Int64{}, map[*Session]*janitor{}
	}
	a := &atomic.Int64{}
	st.bytes[s], st.janitors[s] = a, &janitor{s: s, st: st}
	st.spawn(func() {
		<-s.Done()
		st.mu.Lock()
		defer st.mu.Unlock()
		delete(st.bytes, s)
		delete(st.janitors, s)
	})
	return a
}

// janitor returns the session's janitor.
func (st *clientState) janitor(s *Session) *janitor {
	st.account(s)
	st.mu.Lock()
	defer st.mu.Unlock()
	if j := st.janitors[s]; j != nil {
		return j
	}
	return &janitor{s: s, st: st} // the session is over: a janitor that finds that out at once
}

// detached is a context for work that must go on when its caller has gone: it keeps ctx's values and ends after the
// longest time a session can survive without its server, so that nothing waits on a wedged link for ever.
func detached(ctx context.Context, s *Session) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout())
}
