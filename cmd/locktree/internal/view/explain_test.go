package view_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// Every error of the engine, as a person reads it.
func TestExplain(t *testing.T) {
	info := &failure.LockInfo{ID: "7f3a", Path: "/l/.locktree/apply/p", Operation: "OperationTypeApply", Who: "ann@host", Version: "1.2.3", Created: clock(), Info: ""}
	differences := []failure.Difference{
		{Addr: "mutex.a", Path: "/a", What: "data changed", Want: plan.Pin{Version: 3}, Got: plan.Pin{Version: 4}, ModifiedMs: now},
		{Path: "/.locktree/stacks/shop", What: "deleted", Got: plan.Pin{Absent: true}},
	}
	refused := &failure.NodeError{Addr: "mutex.a", Path: "/a", Op: "set", Why: "we may not write it", Next: "Grant us w on it.", Err: errors.New("zk: not authenticated")}
	_, cutOff := saved.Decode(strings.NewReader(`{"locktree_p`), "1.2.3")
	_, damaged := saved.Decode(strings.NewReader(`{"locktree_plan":2,"version":"1.2.3"`+"\n\n"+strings.Repeat("0", 64)+"\n"), "1.2.3")
	errs := []error{
		&failure.ProblemsError{Problems: []plan.Problem{{Severity: problem.Error, Addr: "mutex.a", Summary: "It stands", Detail: "Move it."}}},
		&failure.StaleError{Differences: differences},
		&failure.StaleError{Differences: differences[:1], Locked: true},
		&failure.LockedError{Info: info, Path: info.Path, Waited: 90 * time.Second},
		&failure.LockedError{Path: info.Path},
		&failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Delete, Usage: busy, Others: 2},
		&failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Replace},
		&failure.ConflictError{Addr: "mutex.a", Path: "/a", Op: tx.OpSet, Why: "its data was changed", Err: errors.New("recipes: bad version")},
		&failure.TooLargeError{Addr: "mutex.a", Ops: 1, Bytes: 1_200_000, Limit: 900_000},
		&failure.TooLargeError{Addr: "mutex.a", Ops: 1, Bytes: 200_000, Limit: 900_000, Refused: true},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.ConflictError{Addr: "mutex.a", Path: "/a", Op: tx.OpSet, Why: "its data was changed", Err: errors.New("recipes: bad version")}},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.UnknownError{ApplyID: "7f3a", Err: errors.New("recipes: connection lost")}},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: errors.New("recipes: session lost")},
		&view.SomeEnsembles{Applied: []string{"main", "spare"}, Failed: "far", Err: &failure.StaleError{Differences: differences}},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.NodeError{Path: "/l", Op: "commit to", Why: "the connection broke", Written: "Nothing was written.", Next: "Look at the network."}},
		&view.SomeEnsembles{Applied: []string{"main"}, Failed: "far", Err: fmt.Errorf("read: %w", context.Canceled)},
		refused,
		&failure.UnknownError{ApplyID: "7f3a", Err: errors.New("recipes: connection lost")},
		&failure.ACLPhaseError{ApplyID: "7f3a", Done: 1, Total: 3, Err: refused},
		&failure.ACLPhaseError{ApplyID: "7f3a", Done: 3, Total: 3, Err: refused},
		&failure.ClosedError{Locks: []string{"mutex.a (/a)"}, Err: &failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Delete, Usage: busy}, Why: refused},
		&failure.ClosedError{Locks: []string{"mutex.a (/a)"}, Err: fmt.Errorf("drain: %w", context.Canceled)},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.ClosedError{Locks: []string{"mutex.a (/a)"}, Err: fmt.Errorf("drain: %w", context.Canceled)}},
		&failure.VerifyError{Differences: differences},
		&failure.VerifyError{Err: errors.New("recipes: connection lost")},
		&failure.VerifyError{Err: refused},
		&failure.UnknownError{ApplyID: "7f3a", Err: errors.Join(errors.New("recipes: connection lost"), refused)},
		&failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Replace, Usage: busy},
		&view.Denied{Err: refused, Who: []string{"world:anyone", "digest:admin"}},
		&view.Denied{Err: errors.New("zk: not authenticated"), Who: []string{"world:anyone"}},
		// Both said that we are digest:x, and what a wrong password means.
		&view.Denied{Err: &direct.OpError{Op: "Get", Path: "/n/a", Err: errors.New("permission denied: needs READ on /n/a; connected as digest:x"),
			Hint: "ask for that right, or check the credentials: ZooKeeper accepts a wrong digest password, and then grants nothing to it"}, Who: []string{"digest:x"}},
		&failure.MovedError{Path: "/l/.locktree/stacks/p", Tries: 5},
		fmt.Errorf("%w: zk1:2181: connection refused", recipes.ErrUnreachable),
		fmt.Errorf("%w: digest", recipes.ErrAuth),
		fmt.Errorf("read: %w", context.Canceled),
		fmt.Errorf("reading p.bin: %w", saved.ErrNotPlan),
		cutOff,
		damaged,
		&saved.VersionError{Wrote: "9.0.0", Reads: "1.2.3", Format: 9},
		(&saved.File{Stack: "a"}).CheckStack("b"),
		view.Failf("Summary", "Detail of %s.", "it"),
		errors.New("recipes: something else\nwith a second line"),
	}
	var b strings.Builder
	for _, err := range errs {
		v, _, text := capture()
		v.Diagnostics(view.Explain(fmt.Errorf("wrapped: %w", err)), nil)
		require.NotContains(t, text.String(), "recipes:", "package names mean nothing to who reads this")
		fmt.Fprintf(&b, "=== %T%s", err, text.String())
	}
	golden(t, "errors.txt", b.String())
}

// The lists were "only partly set", 3 of 3 of them, and a plan was to show the rest.
func TestAccessListsThatAreAllSetAreNotSaidToBeSetInPart(t *testing.T) {
	x := view.Explained(&failure.ACLPhaseError{ApplyID: "7f3a", Done: 3, Total: 3, Err: errors.New("recipes: connection lost")})
	require.NotContains(t, x.String(), "Not all")
	require.NotContains(t, x.String(), "The rest")
	require.Contains(t, x.Detail, "all 3 access lists")
}

// An error named them as "digest:x and digest:y", and the command, which looked for "digest:x, digest:y" in it, named them again.
func TestWhoWeAreIsSaidOnce(t *testing.T) {
	who := []string{"digest:x", "digest:y"}
	for _, err := range []error{
		&direct.OpError{Op: "get", Path: "/n", Err: errors.New("permission denied: needs READ on /n; connected as digest:x and digest:y")},
		&failure.NodeError{Path: "/n", Op: "set", Why: "we (digest:x, digest:y) do not have WRITE on /n", Next: "Connect with an identity that has it.", Named: true},
		&failure.NodeError{Path: "/n", Op: "read", Why: "we do not have READ on it", Next: "Connect with an identity that has it."},
	} {
		x := (&view.Denied{Err: err, Who: who}).Explain()
		require.Equal(t, 1, strings.Count(x.Text(), "digest:y"), x.Text())
	}
}

// "kind: " was taken out of the middle of a sentence: "lock is of another /t/ledger".
func TestOnlyWhatAnErrorBeginsWithIsItsPackage(t *testing.T) {
	for text, want := range map[string]string{
		"recipes: lock is of another kind: /t/ledger is a semaphore": "lock is of another kind: /t/ledger is a semaphore",
		"apply: recipes: connect: zk: no server":                     "connect: no server",
		"cannot read /a: recipes: get /a: zk: not authenticated":     "cannot read /a: get /a: not authenticated",
		"lost (recipes: session lost); kind: no payload":             "lost (session lost); no payload",
	} {
		require.Equal(t, want, explain.Plain(text))
	}
}

func TestDifferencesAlikeAreFolded(t *testing.T) {
	e := &failure.StaleError{}
	for i := range 9 {
		e.Differences = append(e.Differences, failure.Difference{Addr: plan.Addr(fmt.Sprintf("mutex.m%d", i)), Path: "/m", What: "deleted"})
	}
	e.Differences = append(e.Differences, failure.Difference{Addr: "mutex.n", Path: "/n", What: "created"})
	detail := view.Explained(e).Text()
	require.Equal(t, 4, strings.Count(detail, "  - mutex."), detail)
	require.Contains(t, detail, "  - mutex.n (/n): created\n  - 6 more: deleted\n")
}
