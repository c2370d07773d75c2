package recipes_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A checker that accepts everything is no checker: the models are shown histories that no lock may produce.

// timed numbers the events one after another, each over before the next begins, except where call and ret are given.
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
	write := func(token uint64, ok bool) event { return event{op: opWrite, token: token, ok: ok} }
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
		model porcupine.Model
		all   []event
		legal bool
	}{
		"hand-off":                         {mutexModel, timed(acquire(1, 1), release(1), acquire(2, 2)), true},
		"double grant":                     {mutexModel, timed(acquire(1, 1), acquire(2, 2), release(1)), false},
		"double grant of one token":        {mutexModel, timed(acquire(1, 1), handed(acquire(2, 1), acquire(1, 1))), false},
		"token that does not grow":         {mutexModel, timed(acquire(1, 2), release(1), acquire(2, 1)), false},
		"token twice on different nodes":   {mutexModel, timed(acquire(1, 2), release(1), acquire(2, 2)), false},
		"token twice on one node":          {mutexModel, timed(acquire(1, 2), release(1), handed(acquire(2, 2), acquire(1, 2))), false},
		"grant after expiry":               {mutexModel, timed(acquire(1, 1), gone(1), acquire(2, 2)), true},
		"grant before expiry":              {mutexModel, timed(acquire(1, 1), acquire(2, 2), gone(1)), false},
		"grant beside the expiry":          {mutexModel, timed(acquire(1, 1), over(acquire(2, 2), 100, 120), over(gone(1), 110, 130)), true},
		"unknown release that worked":      {mutexModel, timed(acquire(1, 1), unknown(1), acquire(2, 2)), true},
		"unknown release that worked late": {mutexModel, timed(acquire(1, 1), unknown(1), write(1, true), gone(1), acquire(2, 2)), true},
		"unknown release of another":       {mutexModel, timed(acquire(1, 1), unknown(7), acquire(2, 2)), false},
		"stale write accepted":             {mutexModel, timed(acquire(1, 1), gone(1), acquire(2, 2), write(2, true), write(1, true)), false},
		"stale write refused":              {mutexModel, timed(acquire(1, 1), gone(1), acquire(2, 2), write(2, true), write(1, false)), true},
		"two readers":                      {rwModel, timed(read(1), read(2), release(1), release(2), acquire(3, 1)), true},
		"writer among readers":             {rwModel, timed(read(1), acquire(2, 1)), false},
		"reader beside a writer":           {rwModel, timed(acquire(1, 1), read(2)), false},
		"downgrade":                        {rwModel, timed(acquire(1, 1), event{op: opExchange, old: 1, grant: 2, shared: true}, read(3)), true},
		"writer in a downgrade":            {rwModel, timed(acquire(1, 1), event{op: opExchange, old: 1, grant: 2, shared: true}, acquire(3, 2)), false},
		"upgrade beside a reader":          {rwModel, timed(read(1), read(2), event{op: opExchange, old: 1, grant: 3, token: 2}), false},
		"permits":                          {semaphoreModel, timed(take(1, 2), take(2, 1), release(1), take(3, 2)), true},
		"one permit too many":              {semaphoreModel, timed(take(1, 2), take(2, 2)), false},
		"permit after an unknown release":  {semaphoreModel, timed(take(1, 2), unknown(1), take(2, 3)), true},
		"limit raised":                     {semaphoreModel, timed(limit(1), take(1, 1), limit(2), take(2, 1)), true},
		"limit lowered, holders keep":      {semaphoreModel, timed(take(1, 1), take(2, 1), limit(1), release(1), release(2), take(3, 1)), true},
		"grant beyond a lowered limit":     {semaphoreModel, timed(take(1, 1), take(2, 1), limit(1), release(1), take(3, 1)), false},
		"grant while a limit is lowered":   {semaphoreModel, timed(take(1, 1), over(take(2, 1), 100, 120), over(limit(1), 110, 130)), true},
		"grant of a drained lock":          {mutexModel, timed(shut, acquire(1, 1)), false},
		"grant when it is in use again":    {mutexModel, timed(shut, open, acquire(1, 1)), true},
		"drained behind its holder's back": {mutexModel, timed(acquire(1, 1), shut, release(1)), true},
		"waiter granted though drained":    {mutexModel, timed(acquire(1, 1), over(acquire(2, 2), 12, 90), shut, release(1)), false},
		"downgrade of a drained lock":      {rwModel, timed(acquire(1, 1), shut, event{op: opExchange, old: 1, grant: 2, shared: true}), true},

		"leaders one after another":     {electionModel, timed(see(0, 0), acquire(1, 1), see(1, 1), release(1), acquire(2, 2), see(2, 2)), true},
		"two leaders":                   {electionModel, timed(acquire(1, 1), acquire(2, 2), release(1)), false},
		"a deposed leader seen":         {electionModel, timed(acquire(1, 1), gone(1), acquire(2, 2), see(1, 1)), false},
		"a resigned leader seen":        {electionModel, timed(acquire(1, 1), release(1), see(1, 1)), false},
		"nobody seen under a leader":    {electionModel, timed(acquire(1, 1), see(0, 0)), false},
		"a rival seen under a leader":   {electionModel, timed(acquire(1, 1), see(2, 2), release(1)), false},
		"the next seen before he knows": {electionModel, timed(acquire(1, 1), release(1), see(2, 2), acquire(2, 2)), true},
		"who never led seen in between": {electionModel, timed(acquire(1, 1), release(1), see(2, 2), acquire(3, 3), see(3, 3)), true},
		"leader not seen, then seen":    {electionModel, timed(acquire(1, 1), see(1, 1), see(0, 0), release(1)), false},

		"sets that do not overlap":      {setModel, timed(set(opAcquire, 1, 1, m, r), set(opAcquire, 2, 2, m2, e)), true},
		"sets that overlap":             {setModel, timed(set(opAcquire, 1, 1, m, e), set(opAcquire, 2, 2, m2, e)), false},
		"sets one after another":        {setModel, timed(set(opAcquire, 1, 1, m, e), set(opRelease, 1, 1, m, e), set(opAcquire, 2, 2, m2, e)), true},
		"readers in two sets":           {setModel, timed(set(opAcquire, 1, 1, m, r), set(opAcquire, 2, 2, m2, r)), true},
		"a writer beside a reader":      {setModel, timed(set(opAcquire, 1, 1, m, r), set(opAcquire, 2, 2, m2, w)), false},
		"permits of two sets":           {setModel, timed(set(opAcquire, 1, 1, m, p(1)), set(opAcquire, 2, 2, m2, p(2))), true},
		"permits beyond the limit":      {setModel, timed(set(opAcquire, 1, 1, m, p(2)), set(opAcquire, 2, 2, m2, p(2))), false},
		"half of a set given back":      {setModel, timed(set(opAcquire, 1, 1, m, e), set(opRelease, 1, 1, m), set(opAcquire, 2, 2, e)), false},
		"half of a set lost":            {setModel, timed(set(opAcquire, 1, 1, m, e), set(opGone, 1, 1, m), set(opAcquire, 2, 2, m), set(opAcquire, 3, 3, e)), false},
		"what was lost of it taken":     {setModel, timed(set(opAcquire, 1, 1, m, e), set(opGone, 1, 1, m), set(opAcquire, 2, 2, m)), true},
		"a drained member":              {setModel, timed(set(opShut, 0, 0, e), set(opAcquire, 1, 1, m, e)), false},
		"a token that went back":        {setModel, timed(set(opAcquire, 1, 2, m, e), set(opRelease, 1, 2, m, e), set(opAcquire, 2, 1, m)), false},
		"released whole, or not at all": {setModel, timed(set(opAcquire, 1, 1, m, e), lost(set(opRelease, 1, 1, m, e)), set(opAcquire, 2, 2, m, e)), true},
		"released by halves": {setModel, timed(set(opAcquire, 1, 1, m, e), lost(set(opRelease, 1, 1, m, e)), set(opAcquire, 2, 2, m),
			set(opSee, 1, 1, e)), false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.legal, linearizable(c.model, c.all) == porcupine.Ok) })
	}
}

// Histories the simulation recorded are legal, and no longer are with one forged grant in them, wherever it is put.
func TestASeededDoubleGrantIsFoundInRecordedHistories(t *testing.T) {
	effort.Proof(t)
	seeds, forged := effort.Of[uint64](40, 10), 0
	for seed := range seeds {
		plan := newSchedule(seed)
		w := simulate(t, plan)
		require.Empty(t, w.wrong)
		rnd := rand.New(rand.NewPCG(seed, 5))
		for range 3 {
			if broken := forge(rnd, plan.recipe, w.history); broken != nil {
				forged++
				require.Equal(t, porcupine.Illegal, linearizable(modelFor(plan.recipe), broken), "seed %d: %v", seed, broken)
			}
		}
	}
	require.Greater(t, forged, int(seeds))
	t.Logf("%d forged grants in %d histories found", forged, seeds)
}

// forge puts a second exclusive grant into the time of one that is certainly held: behind its return and before
// anything that could have ended it.
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

func TestAHistoryOfTenThousandOperationsIsCheckedInTime(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 6))
	var all []event
	for i := range 10_000 / 2 { // many wait at the same time, as they do in front of a lock
		at := int64(100 * i)
		all = append(all,
			event{op: opAcquire, client: i % 64, grant: i + 1, token: uint64(i + 1), call: at - rnd.Int64N(1500), ret: at + 10},
			event{op: opRelease, client: i % 64, grant: i + 1, unknown: i%10 == 0, call: at + 50, ret: at + 60})
	}
	require.Equal(t, porcupine.Ok, linearizable(mutexModel, all))
	all[5001].call += 200 // one release too late, in the middle
	all[5001].ret += 200
	all[5001].unknown = false
	require.Equal(t, porcupine.Illegal, linearizable(mutexModel, all))
}
