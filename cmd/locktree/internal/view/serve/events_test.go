package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// said are the events, each with its lock.
func said(all []Notice) (out []string) {
	for _, n := range all {
		out = append(out, strings.TrimSpace(n.Event+" "+n.Lock))
	}
	return out
}

// later is a snapshot two seconds later.
func later(old *inspect.Snapshot, locks ...*inspect.Report) *inspect.Snapshot {
	next := *old
	next.At, next.Locks = old.At.Add(2*time.Second), locks
	next.Waits = inspect.WaitsFor(locks...)
	return &next
}

func TestEventsAreWhatDiffersBetweenTwoLooks(t *testing.T) {
	b := NewBoard(Options{Interval: 2 * time.Second, Now: func() time.Time { return noon.Add(5 * time.Second) }}, Ensemble{Name: "main"})
	first := scene()
	require.Equal(t, []string{"deadlock /locks/stock", "limit_exceeded /locks/ledger", "limit_exceeded /locks/stock"}, said(b.Saw("main", first)),
		"who held what before is no news, but what is wrong is")
	require.Empty(t, b.Saw("main", later(first, first.Locks...)))

	// One gives up: the other is granted, the circle is open, and nobody is beyond a limit.
	ledger, stock := *first.Locks[2], *first.Locks[3]
	ledger.Holders, ledger.Waiters = []inspect.Contender{contender("/locks/ledger", "app-b", 2)}, nil
	ledger.Holders[0].Held = first.At.Add(3 * time.Second)
	stock.Waiters = nil
	second := later(later(first), first.Locks[0], first.Locks[1], &ledger, &stock, first.Locks[4])
	found := b.Saw("main", second)
	require.Equal(t, []string{"released /locks/ledger", "granted /locks/ledger", "left /locks/stock",
		"deadlock_ended /locks/stock", "limit_exceeded_ended /locks/ledger", "limit_exceeded_ended /locks/stock"}, said(found))
	for _, n := range found {
		require.Equal(t, []time.Time{second.At, second.At.Add(-2 * time.Second)}, []time.Time{n.Seen.Time, n.Since.Time}, "it happened in between")
	}
	require.Equal(t, kind.Connected, found[1].Party.Connection)

	// A silent holder's session ends.
	jobs := *first.Locks[4]
	jobs.Holders = nil
	third := later(second, first.Locks[0], first.Locks[1], &ledger, &stock, &jobs)
	third.Sessions = map[int64]*inspect.Session{1: first.Sessions[1], 2: first.Sessions[2]}
	found = b.Saw("main", third)
	require.Equal(t, []string{"lost /python/jobs"}, said(found))
	require.Equal(t, kind.CutOff, found[0].Party.Connection, "as it was seen last")

	// An apply declares, changes and removes.
	changed := *first.Locks[1].Payload
	changed.Gen++
	idle := &inspect.Report{Path: "/locks/idle", Kind: kind.Mutex, Payload: &changed}
	fourth := later(third, first.Locks[0], idle, &ledger, declared("/locks/new", kind.Mutex, nil, nil), &jobs)
	found = b.Saw("main", fourth)
	require.Equal(t, []string{"released /locks/stock", "applied"}, said(found))
	require.Equal(t, applied{Add: 1, Change: 1, Remove: 1}, *found[1].Changes)
	require.Equal(t, "shop", found[1].Stack)
}

// A job that took a lock for less than two seconds was in no list: the numbers of the nodes tell that there was one.
func TestAGrantBetweenTwoLooksIsSaidToBeMissed(t *testing.T) {
	at := func(seq int32) *inspect.Report {
		c := contender("/locks/a", "app", 1)
		c.Path, c.Seq = "/locks/a/_c_1-lock-"+string(rune('a'+seq)), seq
		return declared("/locks/a", kind.Mutex, []inspect.Contender{c}, nil)
	}
	b := board(t)
	first := scene()
	b.Saw("main", later(first, at(1)))
	require.Equal(t, []string{"released /locks/a", "granted /locks/a"}, said(b.Saw("main", later(later(first), at(2)))))
	found := b.Saw("main", later(later(later(first)), at(6)))
	require.Equal(t, []string{"released /locks/a", "granted /locks/a", "missed /locks/a"}, said(found))
	require.Equal(t, 3, found[2].Missed)

	// What passes through the antechamber of a semaphore has its permit, and was not missed.
	pool := func(seq int32) *inspect.Report {
		in := declared("/locks/pool", kind.Semaphore, nil, nil)
		for _, q := range kind.Semaphore.Queues {
			if q.Gate {
				in.Waiters = []inspect.Contender{{Path: q.Dir("/locks/pool") + "/x", Name: "x", ID: "x", Seq: seq, Session: int64(seq)}}
			}
		}
		return in
	}
	b = board(t, later(first, pool(1)))
	require.NotContains(t, said(b.Saw("main", later(later(first), pool(9)))), "missed /locks/pool")
}

func TestAnOutageIsToldOnce(t *testing.T) {
	now := noon
	b := NewBoard(Options{Interval: 2 * time.Second, Now: func() time.Time { return now }}, Ensemble{Name: "main"})
	b.Saw("main", scene())
	refused, expired := errors.New("connection refused"), errors.New("certificate has expired")
	now = noon.Add(4 * time.Second)
	found := b.Failed("main", refused)
	require.Equal(t, []string{"outage"}, said(found))
	require.Equal(t, noon, found[0].Since.Time, "it was well when it was seen last")
	require.Empty(t, b.Failed("main", refused))
	require.Empty(t, b.Failed("main", expired), "servers may fail in turn")
	now = noon.Add(2 * time.Minute)
	found = b.Failed("main", refused)
	require.Equal(t, []string{"outage"}, said(found), "the reason is another one")
	require.Equal(t, noon, found[0].Since.Time)
	next := later(scene(), scene().Locks...)
	found = b.Saw("main", next)
	require.Equal(t, "recovered", found[0].Event)
	require.Equal(t, noon, found[0].Since.Time)
}

// A reader that had stopped would have stopped the page.
func TestAReaderOfEventsHoldsNobodyUp(t *testing.T) { synctest.Test(t, slowReader) }

func slowReader(t *testing.T) {
	r, w := io.Pipe()
	j := NewJournal(w, nil)
	for range 5000 {
		j.Note(Notice{Event: "granted"})
	}
	first := make([]byte, 1)
	_, err := io.ReadFull(r, first)
	require.NoError(t, err)
	var rest bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&rest, r)
	}()
	j.End()
	require.NoError(t, w.Close())
	<-read
	lines := slices.Collect(strings.Lines(string(first) + rest.String()))
	require.GreaterOrEqual(t, len(lines), 4096)
	require.Less(t, len(lines), 5000)
	var n Notice
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &n))
	j.Note(Notice{Event: "late"}) // which is dropped
}
