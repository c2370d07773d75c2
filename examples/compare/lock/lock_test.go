//go:build linux

package lock

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fake is a lock service in this process.
type fake struct {
	grant  chan struct{} // fake time passes while a goroutine waits for a channel, but not for a mutex
	takes  time.Duration // to grant
	stall  func(n int) time.Duration
	none   bool // grants without locking
	fails  error
	grants int
}

func (f *fake) dial([]string, time.Duration) Client {
	return Client{Close: func() error { return nil }, Locker: func(string) Locker { return Locker{Lock: f.lock, Unlock: f.unlock} }}
}

func (f *fake) lock(context.Context) error {
	if f.fails != nil {
		return f.fails
	}
	time.Sleep(f.takes)
	if !f.none {
		f.grant <- struct{}{}
		f.grants++
		if f.stall != nil {
			time.Sleep(f.stall(f.grants))
		}
	}
	return nil
}

func (f *fake) unlock(context.Context) error {
	if !f.none {
		<-f.grant
	}
	return nil
}

func measure(t *testing.T, f *fake, l Load, window time.Duration) Result {
	f.grant = make(chan struct{}, 1)
	r := Start(f.dial, nil, 0, "x", l)
	result := r.Measure(window)
	r.Stop()
	return result
}

func TestOverlapsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Clients: 2, Workers: 2, Locks: 1, Hold: time.Millisecond}
		require.Zero(t, measure(t, &fake{}, l, time.Second).Overlaps)
		require.Positive(t, measure(t, &fake{none: true}, l, time.Second).Overlaps)
	})
	synctest.Test(t, func(t *testing.T) { // each worker has a lock of its own
		l := Load{Clients: 2, Workers: 4, Locks: 4, Hold: time.Millisecond}
		require.Zero(t, measure(t, &fake{none: true}, l, time.Second).Overlaps)
	})
}

func TestErrorsAreCountedAndToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := measure(t, &fake{fails: errors.New("no lock today")}, Load{Clients: 1, Workers: 2, Locks: 1}, time.Second)
		require.Zero(t, r.Cycles)
		require.InDelta(t, 200, r.Errors, 4)
		require.Equal(t, "lock: no lock today", r.First)
	})
}

func TestAServedLoadIsTheOneThatWasAskedFor(t *testing.T) {
	in, say := io.Pipe()
	hear, out := io.Pipe()
	f := &fake{grant: make(chan struct{}, 1)}
	go func() {
		Serve(f.dial, 0, in, out)
		_ = out.Close()
	}()
	p := &Process{in: say, lines: make(chan string), limit: time.Minute}
	go p.read(hear)
	load := Load{Clients: 2, Workers: 3, Locks: 1, Hold: time.Millisecond}
	require.NoError(t, p.Start([]string{"a:1", "b:2"}, "name", load, 0))
	r, err := p.Measure(50 * time.Millisecond)
	for err == nil && r.Cycles == 0 { // a busy machine may stop for so long
		r, err = p.Measure(50 * time.Millisecond)
	}
	require.NoError(t, err)
	require.Len(t, r.Each, load.Workers)
	require.Equal(t, r.Cycles, r.Each[0]+r.Each[1]+r.Each[2])
	require.GreaterOrEqual(t, r.Longest, load.Hold, "of three workers, two wait")
	require.NoError(t, p.Stop())

	_, err = p.Measure(0)
	require.ErrorContains(t, err, "measure comes after start")
	f.fails = errors.New("down 100% = bad")
	p.limit = 2 * time.Second
	require.ErrorContains(t, p.Start([]string{"a:1"}, "name", load, 0), "0 cycles of 3 workers in 2s; the first error: lock: down 100% = bad")
	require.NoError(t, p.Stop())
	require.NoError(t, say.Close())
}

func TestAProcessThatHangsOrDiesIsLost(t *testing.T) {
	for script, says := range map[string]string{
		"echo why >&2; read line":                   "lost the process before it said stopped or failed; it wrote: why",
		"read line; sleep 1000":                     "no stopped or failed within",
		"exec 0<&-; echo gone >&2; sleep 1; exit 1": "it wrote: gone",
	} {
		p, err := Spawn([]string{"sh", "-c", script}, 10*time.Second)
		require.NoError(t, err)
		err = p.Stop()
		require.ErrorIs(t, err, ErrLost, script)
		require.ErrorContains(t, err, says, script)
		p.Kill()
	}
}

// The longest waiter may still be waiting when the window ends, and would be in no histogram.
func TestTheLongestWaitIsThatOfWhoIsStillWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{stall: func(int) time.Duration { return time.Minute }, grant: make(chan struct{}, 1)}
		r := Start(f.dial, nil, 0, "x", Load{Clients: 2, Workers: 2, Locks: 1})
		result := r.Measure(10 * time.Second)
		require.Zero(t, result.Cycles)
		require.Equal(t, 10*time.Second, result.Longest)
		require.Equal(t, []int64{0, 0}, result.Each)
		result = r.Measure(10 * time.Minute)
		require.Equal(t, []int64{5, 5}, result.Each)
		r.Stop()
	})
}
