package recipes

import "sync"

// clientState is what the recipes keep per Client; its zero value is ready. Its mutex is never held across a request:
// everything that waits, waits on channels.
//
// Locks are taken in this order: clientState.mu, an epoch's, then a Session's or a holding's (never both), then
// those that are held for a moment only: of links, of hosts, of the queues for events and log lines. So a session, or a
// holding, that has news for the recipes lets go of its own first. Leases' contexts are cancelled with no lock held from the
// epoch's on, and Observers called with none at all.
type clientState struct {
	mu       sync.Mutex
	local    localQueues
	maxDecls int            // how many are kept, if not maxDeclarations: tests have few
	crowd    int            // from how many contenders on a queue is long, if not longQueue: tests have few
	pins     map[string]int // calls under way that need the declaration, by lock node
	epoch    *epoch         // the newest session's; nil before the first use
	lost     lostEpochs     // of sessions that the servers are not known to have ended
	cleared  chan struct{}  // closed when the clearing that is under way has ended; nil while none is

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
