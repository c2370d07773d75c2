package recipes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// What a lock is, as porcupine understands it: three models that accept a history if and only if there is an order of
// its operations, consistent with real time, in which each does what the lock promises.

type operation string

const (
	opAcquire  operation = "acquire"  // a grant was returned
	opRelease  operation = "release"  // an Unlock; with unknown, one that was not confirmed
	opGone     operation = "gone"     // the servers dropped the grant's nodes: expiry, or somebody's hand
	opExchange operation = "exchange" // a write lease became a read lease, or the other way round
	opWrite    operation = "write"    // to a store that remembers the highest token
)

// event is one operation on one lock with its real-time interval, in stamps.
type event struct {
	op        operation
	lock      string
	client    int
	grant     int    // of acquire, its lease's number; of the others, whose
	old       int    // of exchange: the grant that ended
	token     uint64 // 0 when the lease was over before anybody could read it
	node      string // several grants share one after a local hand-off
	shared    bool
	n         int // permits
	unknown   bool
	ok        bool // of write: accepted
	call, ret int64
}

func (e event) String() string {
	return fmt.Sprintf("[%d,%d] client %d: %s %s grant %d token %d shared=%v n=%d unknown=%v ok=%v old=%d",
		e.call, e.ret, e.client, e.op, e.lock, e.grant, e.token, e.shared, e.n, e.unknown, e.ok, e.old)
}

// mutexState is a mutex, with what its token guards. Elections and the members of a multi-lock are mutexes too.
type mutexState struct {
	holder int
	token  uint64 // of the newest grant
	node   string
	stored uint64 // highest token the store has seen
}

func stepMutex(m mutexState, e event) []any {
	switch e.op {
	case opAcquire:
		// A local hand-off shares node and token.
		if m.holder != 0 || e.token != 0 && e.token <= m.token && (e.token != m.token || e.node != m.node) {
			return nil
		}
		m.holder, m.token, m.node = e.grant, max(m.token, e.token), e.node
	case opWrite:
		if e.ok && e.token < m.stored {
			return nil
		}
		if e.ok {
			m.stored = e.token
		}
	case opRelease, opGone:
		if m.holder != e.grant {
			return []any{m} // it was lost before
		}
		free := m
		free.holder = 0
		if e.unknown {
			return []any{m, free}
		}
		return []any{free}
	}
	return []any{m}
}

// rwState is a read-write lock.
type rwState struct {
	writer  int
	readers string // ordered numbers, each followed by a space
	token   uint64 // of the newest writer
	node    string
}

func stepRW(m rwState, e event) []any {
	switch e.op {
	case opAcquire:
		return m.enter(e)
	case opExchange:
		// One step: nobody can come between the lease that ends and the one that begins.
		return m.leave(e.old).enter(e)
	case opRelease, opGone:
		if e.unknown {
			return []any{m, m.leave(e.grant)}
		}
		return []any{m.leave(e.grant)}
	}
	return []any{m}
}

func (m rwState) enter(e event) []any {
	switch {
	case m.writer != 0, !e.shared && m.readers != "":
		return nil
	case e.shared:
		ids := append(strings.Fields(m.readers), fmt.Sprint(e.grant))
		slices.Sort(ids)
		m.readers = strings.Join(ids, " ")
	case e.token != 0 && e.token <= m.token && (e.token != m.token || e.node != m.node):
		return nil
	default:
		m.writer, m.token, m.node = e.grant, max(m.token, e.token), e.node
	}
	return []any{m}
}

func (m rwState) leave(grant int) rwState {
	if m.writer == grant {
		m.writer = 0
	}
	own := fmt.Sprint(grant)
	m.readers = strings.Join(slices.DeleteFunc(strings.Fields(m.readers), func(id string) bool { return id == own }), " ")
	return m
}

// semaphoreState is the permits of each grant: "number:permits", ordered.
type semaphoreState string

func stepSemaphore(limit int) func(semaphoreState, event) []any {
	return func(m semaphoreState, e event) []any {
		held := strings.Fields(string(m))
		own := fmt.Sprintf("%d:", e.grant)
		switch e.op {
		case opAcquire:
			total := e.n
			for _, h := range held {
				var id, n int
				_, _ = fmt.Sscanf(h, "%d:%d", &id, &n) // written below
				total += n
			}
			if total > limit {
				return nil
			}
			held = append(held, own+fmt.Sprint(e.n))
			slices.Sort(held)
		case opRelease, opGone:
			held = slices.DeleteFunc(held, func(h string) bool { return strings.HasPrefix(h, own) })
			if e.unknown {
				return []any{m, semaphoreState(strings.Join(held, " "))}
			}
		}
		return []any{semaphoreState(strings.Join(held, " "))}
	}
}

// modelOf makes porcupine's model from a step function. States are comparable values.
func modelOf[S comparable](step func(S, event) []any) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init:  func() []any { var s S; return []any{s} },
		Step:  func(state, input, _ any) []any { return step(state.(S), input.(event)) },
		Equal: func(a, b any) bool { return a == b },
		Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
			by := map[string][]porcupine.Operation{}
			for _, o := range all {
				lock := o.Input.(event).lock
				by[lock] = append(by[lock], o)
			}
			for _, part := range by {
				parts = append(parts, part)
			}
			return parts
		},
	}
	return m.ToModel()
}

var (
	mutexModel     = modelOf(stepMutex)
	rwModel        = modelOf(stepRW)
	semaphoreModel = modelOf(stepSemaphore(simPermits))
)

func modelFor(r simRecipe) porcupine.Model {
	switch r {
	case "rwlock":
		return rwModel
	case "semaphore":
		return semaphoreModel
	}
	return mutexModel
}

// linearizable asks porcupine. An Unknown (it ran out of time) is not an Ok.
func linearizable(m porcupine.Model, history []event) porcupine.CheckResult {
	ops := make([]porcupine.Operation, len(history))
	for i, e := range history {
		ops[i] = porcupine.Operation{ClientId: e.client, Input: e, Call: e.call, Return: e.ret}
	}
	return porcupine.CheckOperationsTimeout(m, ops, 20*time.Second)
}
