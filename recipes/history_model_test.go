package recipes_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/locktree/locktree/recipes/internal/hostile"
)

// What a lock is, as porcupine understands it: a model of each recipe, which accepts a history if and only if there is an
// order of its operations, consistent with real time, in which each does what the recipe promises.

type operation string

const (
	opAcquire  operation = "acquire"  // a grant was returned
	opRelease  operation = "release"  // an Unlock; with unknown, one that was not confirmed
	opGone     operation = "gone"     // the servers dropped the grant's nodes: expiry, or somebody's hand
	opExchange operation = "exchange" // a write lease became a read lease, or the other way round
	opWrite    operation = "write"    // to a store that remembers the highest token
	opSee      operation = "see"      // somebody was told who leads: node and token; no node, nobody
	opShut     operation = "shut"     // the lock was drained
	opOpen     operation = "open"     // and is in use again
	opLimit    operation = "limit"    // the semaphore has n permits from here on
)

// event is one operation on one lock with its real-time interval, in stamps.
type event struct {
	op        operation
	lock      string
	client    int
	grant     int    // of acquire, its lease's number; of the others, whose
	old       int    // of exchange: the grant that ended
	token     uint64 // 0 when the lease was over before anybody could read it
	node      string
	shared    bool
	n         int // permits
	unknown   bool
	ok        bool    // of write: accepted
	passed    bool    // of acquire: by a program that obeys no declaration
	set       []event // of a multi-lock: what is said of each member, all of it at one moment; lock is empty
	call, ret int64
}

func (e event) String() string {
	s := fmt.Sprintf("[%d,%d] client %d: %s %s grant %d token %d shared=%v n=%d unknown=%v ok=%v old=%d %s",
		e.call, e.ret, e.client, e.op, e.lock, e.grant, e.token, e.shared, e.n, e.unknown, e.ok, e.old, e.node)
	for _, part := range e.set {
		s += fmt.Sprintf("; %s shared=%v n=%d", part.lock, part.shared, part.n)
	}
	return s
}

// mutexState is a mutex, with what its token guards.
type mutexState struct {
	holder int
	token  uint64 // of the newest grant
	node   string
	stored uint64 // highest token the store has seen
}

func stepMutex(m mutexState, e event) []any {
	switch e.op {
	case opAcquire:
		if m.holder != 0 || e.token != 0 && e.token <= m.token {
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

// stepElection is a mutex that tells who holds it. While somebody leads it names nobody else, and not nobody; while
// nobody has been told that he leads, it may name the next one, who stands first and does not know yet.
func stepElection(m mutexState, e event) []any {
	if e.op != opSee {
		return stepMutex(m, e)
	}
	switch {
	case m.holder != 0 && e.node == m.node:
	case m.holder == 0 && (e.node == "" || e.token > m.token):
	default:
		return nil
	}
	return []any{m}
}

// rwState is a read-write lock.
type rwState struct {
	writer  int
	readers string // a line for each: its node, which several grants may have had that are not known to be over
	token   uint64 // of the newest writer
	node    string
}

func stepRW(m rwState, e event) []any {
	switch e.op {
	case opAcquire:
		return m.enter(e)
	case opExchange:
		// One step: nobody can come between the lease that ends and the one that begins.
		return m.leave(event{grant: e.old}).enter(e)
	case opRelease, opGone:
		if e.unknown {
			return []any{m, m.leave(e)}
		}
		return []any{m.leave(e)}
	}
	return []any{m}
}

func (m rwState) enter(e event) []any {
	switch {
	case m.writer != 0, !e.shared && m.readers != "":
		return nil
	case e.shared:
		nodes := slices.Sorted(strings.Lines(m.readers + e.node + "\n"))
		m.readers = strings.Join(nodes, "")
	case e.token != 0 && e.token <= m.token && (e.token != m.token || e.node != m.node):
		return nil
	default:
		m.writer, m.token, m.node = e.grant, max(m.token, e.token), e.node
	}
	return []any{m}
}

func (m rwState) leave(e event) rwState {
	if m.writer == e.grant {
		m.writer = 0
		return m
	}
	if before, after, reads := strings.Cut("\n"+m.readers, "\n"+e.node+"\n"); reads {
		m.readers = strings.TrimPrefix(before+"\n"+after, "\n")
	}
	return m
}

// semaphoreState is the permits of each grant, and how many there are.
type semaphoreState struct {
	held  string // "number:permits", ordered, each followed by a space
	limit int    // 0: simPermits
}

func stepSemaphore(m semaphoreState, e event) []any {
	held := strings.Fields(m.held)
	own := fmt.Sprintf("%d:", e.grant)
	switch e.op {
	case opLimit:
		m.limit = e.n
	case opAcquire:
		total, limit := e.n, m.limit
		if limit == 0 {
			limit = simPermits
		}
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
		before := m
		m.held = strings.Join(slices.DeleteFunc(held, func(h string) bool { return strings.HasPrefix(h, own) }), " ")
		if e.unknown {
			return []any{before, m}
		}
		return []any{m}
	}
	m.held = strings.Join(held, " ")
	return []any{m}
}

// gated is a lock that can be drained: then it grants nothing, and whoever holds it keeps what he has.
type gated[S comparable] struct {
	shut bool
	lock S
}

func gate[S comparable](step func(S, event) []any) func(gated[S], event) []any {
	return func(g gated[S], e event) (out []any) {
		switch {
		case e.op == opShut, e.op == opOpen:
			return []any{gated[S]{e.op == opShut, g.lock}}
		case e.op == opAcquire && g.shut && !e.passed:
			return nil
		}
		for _, next := range step(g.lock, e) {
			out = append(out, gated[S]{g.shut, next.(S)})
		}
		return out
	}
}

// setState is the locks of multi-locks together: what a set does, it does to all its members at one moment.
type setState [len(simMembers)]any

// stepSet applies an event to all members, or not at all.
func stepSet(m setState, e event) []any {
	if e.unknown {
		known := e
		known.unknown = false
		return append(stepSet(m, known), m)
	}
	for _, part := range e.set {
		i := slices.IndexFunc(simMembers[:], func(of simMember) bool { return of.path == part.lock })
		part.op, part.grant, part.client = e.op, e.grant, e.client
		next := simMembers[i].step(m[i], part)
		if len(next) == 0 {
			return nil
		}
		m[i] = next[0] // what is certain has one outcome
	}
	return []any{m}
}

// simMember is a lock that is taken in sets.
type simMember struct {
	path   string
	recipe simRecipe
	step   func(state any, e event) []any
}

// simMembers are the locks of the simulated worlds: one of each kind, and another one to go round in circles with.
var simMembers = [...]simMember{
	{"/l0", "mutex", untyped(gate(stepMutex))},
	{"/l1", "rwlock", untyped(gate(stepRW))},
	{"/l2", "semaphore", untyped(gate(stepSemaphore))}, // which sets do not take
	{"/l3", "election", untyped(gate(stepElection))},
	{"/l4", "mutex", untyped(gate(stepMutex))},
}

// worldState is any of the locks of sets, by itself.
type worldState struct{ lock any }

func stepWorld(m worldState, e event) (out []any) {
	i := slices.IndexFunc(simMembers[:], func(of simMember) bool { return of.path == e.lock })
	for _, next := range simMembers[i].step(m.lock, e) {
		out = append(out, worldState{next})
	}
	return out
}

func untyped[S comparable](step func(S, event) []any) func(any, event) []any {
	return func(state any, e event) []any {
		s, _ := state.(S) // nil is the beginning
		return step(s, e)
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
	mutexModel     = modelOf(gate(stepMutex))
	electionModel  = modelOf(gate(stepElection))
	rwModel        = modelOf(gate(stepRW))
	semaphoreModel = modelOf(gate(stepSemaphore))
	setModel       = modelOf(stepSet)
	worldModel     = modelOf(stepWorld)
)

func modelFor(r simRecipe) porcupine.Model {
	return map[simRecipe]porcupine.Model{
		"mutex": mutexModel, "election": electionModel, "rwlock": rwModel, "semaphore": semaphoreModel, "multi": setModel,
		"world": worldModel,
	}[r]
}

// linearizable asks porcupine. An Unknown (it ran out of time) is not an Ok.
func linearizable(m porcupine.Model, history []event) porcupine.CheckResult {
	ops := make([]porcupine.Operation, len(history))
	for i, e := range history {
		ops[i] = porcupine.Operation{ClientId: e.client, Input: e, Call: e.call, Return: e.ret}
	}
	return porcupine.CheckOperationsTimeout(m, ops, hostile.Patience)
}
