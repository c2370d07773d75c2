package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
)

// asked is a standard input that answers when the test says so.
type asked struct {
	now    chan struct{} // closed when the question is asked
	answer chan string
}

func newAsked() *asked { return &asked{now: make(chan struct{}), answer: make(chan string)} }

func (a *asked) Read(b []byte) (int, error) {
	close(a.now)
	return copy(b, <-a.answer), nil
}

// start runs a command that reads its answer from in. The returned function waits for its end and returns its output.
func (b *bench) start(in *asked, args ...string) (end func(code int) string) {
	var out strings.Builder
	a := b.app(in, &out, &out)
	got := make(chan int)
	go func() { got <- a.run(b.t.Context(), append([]string{"-chdir=" + b.dir}, args...)) }()
	return func(code int) string {
		require.Equal(b.t, code, <-got, "%s", &out)
		return out.String()
	}
}

// An apply holds its lock from before the plan until its end. No other apply overtakes a user who plans, reads and answers.
func TestApplyHoldsItsLockWhileItAsks(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		b.write("locks.locktree.hcl", oneLedger+strings.ReplaceAll(oneLedger, "ledger", "books"))
		for _, command := range []string{"apply", "destroy"} {
			in := newAsked()
			end := b.start(in, command)
			<-in.now
			_, stderr := b.run(exit.Locked, "apply", "-auto-approve", "-detailed-exitcode")
			require.Contains(t, stderr, "Error: Error acquiring the apply lock", command)
			b.run(exit.OK, "plan")
			in.answer <- "no\n"
			require.Contains(t, end(exit.Failed), " cancelled.", command)
		}
		b.run(exit.OK, "apply", "-auto-approve")
	})
}

// An apply that waited for another one was refused: its plan was older than the lock.
func TestApplyThatWaitedForAnotherOneSucceeds(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		b.write("locks.locktree.hcl", oneLedger+strings.ReplaceAll(oneLedger, "ledger", "books"))
		in := newAsked()
		first := b.start(in, "apply")
		<-in.now
		b.write("locks.locktree.hcl", oneLedger+strings.ReplaceAll(oneLedger, "ledger", "tills"))
		second := b.start(newAsked(), "apply", "-auto-approve", "-lock-timeout=1h")
		time.Sleep(time.Minute)
		in.answer <- "yes\n"
		require.Contains(t, first(exit.OK), "Resources: 1 added, 0 changed, 0 destroyed")
		require.Contains(t, second(exit.OK), "Resources: 1 added, 0 changed, 1 destroyed")
		b.run(exit.OK, "plan", "-detailed-exitcode")
	})
}

// Before the first apply there is no lock, and nothing is created before the approval. An apply that is overtaken there plans again.
func TestTwoFirstAppliesBothSucceed(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		in := newAsked()
		first := b.start(in, "apply")
		<-in.now
		_, ok := b.server.Get("/t")
		require.False(t, ok, "nothing is approved yet")
		b.run(exit.OK, "apply", "-auto-approve")
		in.answer <- "yes\n"
		out := first(exit.OK)
		require.Contains(t, out, "Another apply of this new stack came first.")
		require.Contains(t, out, "No changes.")
	})
}

// If the lock is lost before the answer, the question ends, and nothing is written whatever the answer is.
func TestLockLostWhileAskingEndsTheApply(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		before := b.server.Dump()
		b.write("locks.locktree.hcl", "")
		in := newAsked()
		end := b.start(in, "destroy")
		<-in.now
		for _, s := range b.server.Sessions() {
			b.server.Expire(s.ID)
		}
		out := end(exit.Failed)
		require.Contains(t, out, "Error: Cannot acquire the apply lock")
		require.Regexp(t, `/t/.locktree/apply/shop: the lock was lost \(.*\), so another apply may have begun\.`, out)
		require.Contains(t, out, "Nothing was written. Apply again.")
		in.answer <- "yes\n" // too late
		synctest.Wait()
		require.Equal(t, before, b.server.Dump())
	})
}
