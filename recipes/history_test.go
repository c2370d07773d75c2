package recipes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A checker that accepts everything is useless, so the models are also shown histories that no lock may produce.

// timed numbers the events one after another, each over before the next begins. Events that have call and ret already keep them.
func timed(events ...event) []event {
	for i := range events {
		if events[i].ret == 0 {
			events[i].call, events[i].ret = int64(10*i), int64(10*i+5)
		}
	}
	return events
}

func TestModelsTellLegalFromIllegalHistories(t *testing.T) {
	acquire := func(grant int, token uint64) event {
		return event{op: opAcquire, grant: grant, token: token, n: 1, node: string(rune('a' + grant))}
	}
	read := func(grant int) event { return event{op: opAcquire, grant: grant, token: 1, shared: true} }
	take := func(grant, n int) event { return event{op: opAcquire, grant: grant, n: n} }
	release := func(grant int) event { return event{op: opRelease, grant: grant} }
	unknown := func(grant int) event { return event{op: opRelease, grant: grant, unknown: true} }
	gone := func(grant int) event { return event{op: opGone, grant: grant} }
	over := func(e event, call, ret int64) event { e.call, e.ret = call, ret; return e }
	handed := func(e event, from event) event { e.node, e.token = from.node, from.token; return e }
	shut, open := event{op: opShut}, event{op: opOpen}
	limit := func(n int) event { return event{op: opLimit, n: n} }
	see := func(grant int, token uint64) event {
		if grant == 0 {
			return event{op: opSee}
		}
		return event{op: opSee, token: token, node: string(rune('a' + grant))}
	}
	set := func(op operation, grant int, token uint64, parts ...event) event {
		for i := range parts {
			parts[i].token, parts[i].node = token, string(rune('a'+grant))
		}
		return event{op: op, grant: grant, set: parts}
	}
	m, r, w := event{lock: "/l0"}, event{lock: "/l1", shared: true}, event{lock: "/l1"}
	e, m2 := event{lock: "/l3"}, event{lock: "/l4"}
	p := func(n int) event { return event{lock: "/l2", n: n} }
	lost := func(e event) event { e.unknown = true; return e }

	for name, c := range map[string]struct {
		model simRecipe
		all   []event
		legal bool
	}{
		"hand-off":                         {"mutex", timed(acquire(1, 1), release(1), acquire(2, 2)), true},
		"double grant":                     {"mutex", timed(acquire(1, 1), acquire(2, 2), release(1)), false},
		"double grant of one token":        {"mutex", timed(acquire(1, 1), handed(acquire(2, 1), acquire(1, 1))), false},
		"token that does not grow":         {"mutex", timed(acquire(1, 2), release(1), acquire(2, 1)), false},
		"token twice on different nodes":   {"mutex", timed(acquire(1, 2), release(1), acquire(2, 2)), false},
		"token twice on one node":          {"mutex", timed(acquire(1, 2), release(1), handed(acquire(2, 2), acquire(1, 2))), false},
		"grant after expiry":               {"mutex", timed(acquire(1, 1), gone(1), acquire(2, 2)), true},
		"grant before expiry":              {"mutex", timed(acquire(1, 1), acquire(2, 2), gone(1)), false},
		"grant beside the expiry":          {"mutex", timed(acquire(1, 1), over(acquire(2, 2), 100, 120), over(gone(1), 110, 130)), true},
		"unknown release that worked":      {"mutex", timed(acquire(1, 1), unknown(1), acquire(2, 2)), true},
		"unknown release that worked late": {"mutex", timed(acquire(1, 1), unknown(1), gone(1), acquire(2, 2)), true},
		"unknown release of another":       {"mutex", timed(acquire(1, 1), unknown(7), acquire(2, 2)), false},
		"two readers":                      {"rwlock", timed(read(1), read(2), release(1), release(2), acquire(3, 1)), true},
		"writer among readers":             {"rwlock", timed(read(1), acquire(2, 1)), false},
		"reader beside a writer":           {"rwlock", timed(acquire(1, 1), read(2)), false},
		"downgrade":                        {"rwlock", timed(acquire(1, 1), event{op: opExchange, old: 1, grant: 2, shared: true}, read(3)), true},
		"writer in a downgrade":            {"rwlock", timed(acquire(1, 1), event{op: opExchange, old: 1, grant: 2, shared: true}, acquire(3, 2)), false},
		"upgrade beside a reader":          {"rwlock", timed(read(1), read(2), event{op: opExchange, old: 1, grant: 3, token: 2}), false},
		"permits":                          {"semaphore", timed(take(1, 2), take(2, 1), release(1), take(3, 2)), true},
		"one permit too many":              {"semaphore", timed(take(1, 2), take(2, 2)), false},
		"permit after an unknown release":  {"semaphore", timed(take(1, 2), unknown(1), take(2, 3)), true},
		"limit raised":                     {"semaphore", timed(limit(1), take(1, 1), limit(2), take(2, 1)), true},
		"limit lowered, holders keep":      {"semaphore", timed(take(1, 1), take(2, 1), limit(1), release(1), release(2), take(3, 1)), true},
		"grant beyond a lowered limit":     {"semaphore", timed(take(1, 1), take(2, 1), limit(1), release(1), take(3, 1)), false},
		"grant while a limit is lowered":   {"semaphore", timed(take(1, 1), over(take(2, 1), 100, 120), over(limit(1), 110, 130)), true},
		"grant of a drained lock":          {"mutex", timed(shut, acquire(1, 1)), false},
		"grant when it is in use again":    {"mutex", timed(shut, open, acquire(1, 1)), true},
		"drained behind its holder's back": {"mutex", timed(acquire(1, 1), shut, release(1)), true},
		"waiter granted though drained":    {"mutex", timed(acquire(1, 1), over(acquire(2, 2), 12, 90), shut, release(1)), false},
		"downgrade of a drained lock":      {"rwlock", timed(acquire(1, 1), shut, event{op: opExchange, old: 1, grant: 2, shared: true}), true},

		"leaders one after another":     {"election", timed(see(0, 0), acquire(1, 1), see(1, 1), release(1), acquire(2, 2), see(2, 2)), true},
		"two leaders":                   {"election", timed(acquire(1, 1), acquire(2, 2), release(1)), false},
		"a deposed leader seen":         {"election", timed(acquire(1, 1), gone(1), acquire(2, 2), see(1, 1)), false},
		"a resigned leader seen":        {"election", timed(acquire(1, 1), release(1), see(1, 1)), false},
		"nobody seen under a leader":    {"election", timed(acquire(1, 1), see(0, 0)), false},
		"a rival seen under a leader":   {"election", timed(acquire(1, 1), see(2, 2), release(1)), false},
		"the next seen before he knows": {"election", timed(acquire(1, 1), release(1), see(2, 2), acquire(2, 2)), true},
		"who never led seen in between": {"election", timed(acquire(1, 1), release(1), see(2, 2), acquire(3, 3), see(3, 3)), true},
		"leader not seen, then seen":    {"election", timed(acquire(1, 1), see(1, 1), see(0, 0), release(1)), false},

		"sets that do not overlap":      {"multi", timed(set(opAcquire, 1, 1, m, r), set(opAcquire, 2, 2, m2, e)), true},
		"sets that overlap":             {"multi", timed(set(opAcquire, 1, 1, m, e), set(opAcquire, 2, 2, m2, e)), false},
		"sets one after another":        {"multi", timed(set(opAcquire, 1, 1, m, e), set(opRelease, 1, 1, m, e), set(opAcquire, 2, 2, m2, e)), true},
		"readers in two sets":           {"multi", timed(set(opAcquire, 1, 1, m, r), set(opAcquire, 2, 2, m2, r)), true},
		"a writer beside a reader":      {"multi", timed(set(opAcquire, 1, 1, m, r), set(opAcquire, 2, 2, m2, w)), false},
		"permits of two sets":           {"multi", timed(set(opAcquire, 1, 1, m, p(1)), set(opAcquire, 2, 2, m2, p(2))), true},
		"permits beyond the limit":      {"multi", timed(set(opAcquire, 1, 1, m, p(2)), set(opAcquire, 2, 2, m2, p(2))), false},
		"half of a set given back":      {"multi", timed(set(opAcquire, 1, 1, m, e), set(opRelease, 1, 1, m), set(opAcquire, 2, 2, e)), false},
		"half of a set lost":            {"multi", timed(set(opAcquire, 1, 1, m, e), set(opGone, 1, 1, m), set(opAcquire, 2, 2, m), set(opAcquire, 3, 3, e)), false},
		"what was lost of it taken":     {"multi", timed(set(opAcquire, 1, 1, m, e), set(opGone, 1, 1, m), set(opAcquire, 2, 2, m)), true},
		"a drained member":              {"multi", timed(set(opShut, 0, 0, e), set(opAcquire, 1, 1, m, e)), false},
		"a token that went back":        {"multi", timed(set(opAcquire, 1, 2, m, e), set(opRelease, 1, 2, m, e), set(opAcquire, 2, 1, m)), false},
		"released whole, or not at all": {"multi", timed(set(opAcquire, 1, 1, m, e), lost(set(opRelease, 1, 1, m, e)), set(opAcquire, 2, 2, m, e)), true},
		"released by halves": {"multi", timed(set(opAcquire, 1, 1, m, e), lost(set(opRelease, 1, 1, m, e)), set(opAcquire, 2, 2, m),
			set(opSee, 1, 1, e)), false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.legal, linearizable(models[c.model], c.all) == porcupine.Ok) })
	}
}

// Histories that the simulation recorded are legal. With one forged grant in them they are not, wherever it is put.
func TestASeededDoubleGrantIsFoundInRecordedHistories(t *testing.T) {
	effort.Proof(t)
	seeds, forged := effort.Of[uint64](40, 10), 0
	for seed := range seeds {
		plan := newSchedule(seed)
		w := simulate(t, plan, true)
		require.Empty(t, w.wrong)
		rnd := rand.New(rand.NewPCG(seed, 5))
		for range 3 {
			if broken := forge(rnd, plan.recipe, w.history); broken != nil {
				forged++
				require.Equal(t, porcupine.Illegal, linearizable(models[plan.recipe], broken), "seed %d: %v", seed, broken)
			}
		}
	}
	require.Greater(t, forged, int(seeds))
	t.Logf("%d forged grants in %d histories found", forged, seeds)
}

// forge adds a second exclusive grant while another grant is certainly held: after the return of that grant, and before anything that could
// have ended it.
func forge(rnd *rand.Rand, recipe simRecipe, history []event) []event {
	var grants []event
	for _, e := range history {
		if e.op == opAcquire && e.token != 0 {
			grants = append(grants, e)
		}
	}
	if len(grants) == 0 {
		return nil
	}
	held := grants[rnd.IntN(len(grants))]
	end := int64(-1)
	for _, e := range history {
		ends := e.grant == held.grant && (e.op == opRelease || e.op == opGone) || e.op == opExchange && e.old == held.grant
		if ends && (end < 0 || e.call < end) {
			end = e.call
		}
	}
	if end <= held.ret {
		return nil
	}
	// Stamps are integers without room between them: stretch them.
	broken := slices.Clone(history)
	for i := range broken {
		broken[i].call, broken[i].ret = 4*broken[i].call, 4*broken[i].ret
	}
	second := event{op: opAcquire, lock: held.lock, client: 99, grant: 1 << 20, token: held.token + 1, node: "forged", n: simPermits,
		call: 4*held.ret + 1, ret: 4*held.ret + 2}
	for _, part := range held.set {
		part.shared, part.n, part.token, part.node = false, simPermits, held.token+1, "forged"
		second.set = append(second.set, part)
	}
	return append(broken, second)
}

// These are the models of the recipes, for porcupine. A model accepts a history if and only if its operations can be ordered, consistently
// with real time, so that each does what the recipe promises.

type operation string

const (
	opAcquire  operation = "acquire"  // a grant was returned
	opRelease  operation = "release"  // an Unlock; with unknown, one that was not confirmed
	opGone     operation = "gone"     // the servers dropped the grant's nodes: the session expired, or a rival or a person deleted them
	opExchange operation = "exchange" // a write lease became a read lease, or the other way round
	opSee      operation = "see"      // a caller was told the leader's node and token; no node means no leader
	opShut     operation = "shut"     // the lock was drained
	opOpen     operation = "open"     // the lock is in use again
	opLimit    operation = "limit"    // the semaphore has n permits from here on
)

// event is one operation on one lock with its real-time interval, in stamps.
type event struct {
	op        operation
	lock      string
	client    int
	grant     int    // for acquire, the number of its lease; for the others, the number of the lease concerned
	old       int    // for exchange: the grant that ended
	token     uint64 // 0 if the lease was over before the token could be read
	node      string
	shared    bool
	n         int // permits
	unknown   bool
	passed    bool    // for acquire: by a program that obeys no declaration
	set       []event // for a multi-lock: the event of each member, all at one moment; lock is empty
	call, ret int64
}

func (e event) String() string {
	s := fmt.Sprintf("[%d,%d] client %d: %s %s grant %d token %d shared=%v n=%d unknown=%v old=%d %s",
		e.call, e.ret, e.client, e.op, e.lock, e.grant, e.token, e.shared, e.n, e.unknown, e.old, e.node)
	for _, part := range e.set {
		s += fmt.Sprintf("; %s shared=%v n=%d", part.lock, part.shared, part.n)
	}
	return s
}

// mutexState is the state of a mutex.
type mutexState struct {
	holder int
	token  uint64 // of the newest grant
	node   string
}

func stepMutex(m mutexState, e event) []any {
	switch e.op {
	case opAcquire:
		if m.holder != 0 || e.token != 0 && e.token <= m.token {
			return nil
		}
		m.holder, m.token, m.node = e.grant, max(m.token, e.token), e.node
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

// stepElection is a mutex that also says who leads. While a candidate leads, callers see that candidate. While no candidate has been told
// that it leads, callers may see none, or the first in the queue, which leads next and does not know yet.
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

// rwState is the state of a read-write lock.
type rwState struct {
	writer  int
	readers string // a line for each reader: its node. Several grants that are not known to be over may have had the same node
	token   uint64 // of the newest writer
	node    string
}

func stepRW(m rwState, e event) []any {
	switch e.op {
	case opAcquire:
		return m.enter(e)
	case opExchange:
		// One step: no grant can come between the lease that ends and the one that begins.
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

// semaphoreState has the permits of each grant, and the limit.
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

// gated is a lock that can be drained: then it grants nothing, and its holders keep what they have.
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

// setState has the states of the locks of multi-locks together: a set changes all its members at one moment.
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
		m[i] = next[0] // an event that is certain has one outcome
	}
	return []any{m}
}

// simMember is a lock of the simulated worlds.
type simMember struct {
	path   string
	recipe simRecipe
	step   func(state any, e event) []any
}

// simMembers are the simulated worlds' locks: one of each kind of lock except kind.Once, and a second mutex, so calls can wait in a circle.
var simMembers = [...]simMember{
	{"/l0", "mutex", untyped(gate(stepMutex))},
	{"/l1", "rwlock", untyped(gate(stepRW))},
	{"/l2", "semaphore", untyped(gate(stepSemaphore))}, // sets do not take this one
	{"/l3", "election", untyped(gate(stepElection))},
	{"/l4", "mutex", untyped(gate(stepMutex))},
}

// worldState is the state of one of simMembers, by itself.
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
		s, _ := state.(S) // nil is the initial state
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

var models = map[simRecipe]porcupine.Model{
	"mutex": modelOf(gate(stepMutex)), "election": modelOf(gate(stepElection)), "rwlock": modelOf(gate(stepRW)),
	"semaphore": modelOf(gate(stepSemaphore)), "multi": modelOf(stepSet), "world": modelOf(stepWorld),
}

// linearizable asks porcupine. An Unknown (it ran out of time) is not an Ok.
func linearizable(m porcupine.Model, history []event) porcupine.CheckResult {
	ops := make([]porcupine.Operation, len(history))
	for i, e := range history {
		ops[i] = porcupine.Operation{ClientId: e.client, Input: e, Call: e.call, Return: e.ret}
	}
	return porcupine.CheckOperationsTimeout(m, ops, hostile.Patience)
}
