package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/once"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// aPayment is work that must not be done twice. It takes a second, writes under the guard of the lease, and stops when its context ends.
func aPayment(ctx context.Context, l *recipes.Lease) error {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return fmt.Errorf("%w: not paid: %w", errWork, context.Cause(ctx))
	}
	if _, err := l.Multi(ctx, &zk.SetDataRequest{Path: "/paid", Version: -1}); err != nil {
		return fmt.Errorf("%w: it may have been paid: %w", errWork, err)
	}
	return nil
}

// underLock does what Do does, for methods that only take a lock.
func underLock(take taking) func(context.Context, work) error {
	return func(ctx context.Context, f work) error {
		l, err := take(ctx)
		if err != nil {
			return err
		}
		err = f(l.Context(), l)
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if unlocked := l.Unlock(bounded); err == nil {
			err = unlocked
		}
		return err
	}
}

// waysToWork are the ways to do work under a lock, by name.
func waysToWork() map[string]func(*recipes.Client) func(context.Context, work) error {
	type do = func(context.Context, work) error
	take := func(k *kind.Kind, path string, shared, try bool) func(*recipes.Client) func(context.Context, work) error {
		return func(c *recipes.Client) func(context.Context, work) error {
			return underLock(func(ctx context.Context) (*recipes.Lease, error) {
				lock := c.Locker(k, path, shared, 1)
				if try {
					return lock.TryLock(ctx)
				}
				return lock.Lock(ctx)
			})
		}
	}
	all := map[string]func(*recipes.Client) func(context.Context, work) error{
		"campaign":     func(c *recipes.Client) do { return underLock(c.Election("/e").Campaign) },
		"taken":        take(kind.Mutex, "/m", false, false),
		"tried":        take(kind.Mutex, "/m", false, true),
		"reader, took": take(kind.RWLock, "/rw", true, false),
		"permit":       take(kind.Semaphore, "/s", false, true),
	}
	for name, way := range harness.Ways() {
		all[name] = func(c *recipes.Client) do { return way.Do(c) }
	}
	return all
}

// mishap is what goes wrong at one request.
type mishap struct {
	fault zktest.Fault
	then  func(l *lab, session int64)
}

// outage cuts all connections, and refuses new ones for d.
func outage(d time.Duration) func(*lab, int64) {
	return func(l *lab, _ int64) {
		l.CutOff(0)
		time.Sleep(d)
		l.Srv.RefuseDials(false)
	}
}

func mishaps() map[string]mishap {
	nothing := func(*lab, int64) {}
	each := func(f func(l *lab, node string)) func(*lab, int64) {
		return func(l *lab, _ int64) {
			for _, dir := range harness.Queues {
				for _, name := range l.Children(dir) {
					f(l, kind.JoinPath(dir, name))
				}
			}
		}
	}
	all := map[string]mishap{
		"reply lost":              {zktest.LoseReply, nothing},
		"reply lost and cut":      {zktest.DropReply, nothing},
		"cut before":              {zktest.CutBefore, nothing},
		"shed":                    {zktest.Fail(zktest.CodeThrottled), nothing},
		"done, session expired":   {zktest.DropReply, func(l *lab, id int64) { l.Srv.Expire(id) }},
		"undone, session expired": {zktest.CutBefore, func(l *lab, id int64) { l.Srv.Expire(id) }},
		"lock drained": {zktest.DropReply, func(l *lab, _ int64) {
			l.Declare("/m", kind.Mutex.New(), draining)
			l.Declare("/e", kind.Election.New(), draining)
		}},
		"nodes deleted": {zktest.DropReply, each(func(l *lab, node string) { _ = l.Srv.Delete(node) })},
		"asked back":    {zktest.CutAfter, each(func(l *lab, node string) { _ = l.Srv.Set(node, []byte(kind.RevokeMessage)) })},
	}
	for _, d := range []time.Duration{time.Second, 8 * time.Second, 30 * time.Second} {
		all[fmt.Sprintf("done, outage of %v", d)] = mishap{zktest.DropReply, outage(d)}
		all[fmt.Sprintf("undone, outage of %v", d)] = mishap{zktest.CutBefore, outage(d)}
	}
	return all
}

// goesOnFor is how long the program goes on trying.
const goesOnFor = 2 * time.Minute

// inALoop is the loop that programs write around a call. The function judge gets the error of each call, and whether that call began the
// work.
func inALoop(ctx context.Context, do func(context.Context, work) error, judge func(err error, ran bool)) (runs int, perLease map[*recipes.Lease]int, err error) {
	perLease = map[*recipes.Lease]int{}
	for {
		before := runs
		err = do(ctx, func(ctx context.Context, l *recipes.Lease) error {
			runs++
			perLease[l]++
			return aPayment(ctx, l)
		})
		judge(err, runs > before)
		if !recipes.Retryable(err) {
			return runs, perLease, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// struck runs the loop. The mishap strikes at the nth request of the client, if the client sends so many. If contended is set, a rival
// holds every lock at first. struck returns the number of requests that the client has sent.
func struck(t *testing.T, name string, n int, m mishap, contended bool) (requests int) {
	where := fmt.Sprintf("%s, request %d, contended %v", name, n, contended)
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		require.NoError(t, l.Srv.Create("/paid", nil))
		c, rival := l.Client("a"), l.Client("rival")
		if contended {
			time.AfterFunc(3*time.Second, l.holdsPermits(rival, rival.Mutex("/m"), rival.RWMutex("/rw"), rival.Election("/e")))
		}
		id := l.SessionID(c)
		strike := l.Srv.Inject(func(r zktest.Request) bool {
			if r.Session != id || r.Op == "connect" || r.Op == "ping" || r.Op == "closeSession" {
				return false
			}
			requests++
			return requests == n
		}, m.fault)
		over := make(chan struct{})
		go func() {
			select {
			case <-strike.Hit():
				m.then(l, id)
			case <-over:
			}
		}()
		ctx := l.Within(goesOnFor)
		runs, perLease, err := inALoop(ctx, waysToWork()[name](c), func(err error, ran bool) {
			if err == nil {
				return
			}
			row, found := rowOf(err, ran)
			require.True(t, found, "%s: no row of the table says what it means: %v (the work ran: %v)", where, err, ran)
			require.Equal(t, row.again, recipes.Retryable(err), "%s: %v", where, err)
		})
		if name == "election" {
			for _, n := range perLease {
				require.Equal(t, 1, n, "%s: once per leadership", where)
			}
		} else {
			require.LessOrEqual(t, runs, 1, "%s: paid twice, the last call said %v", where, err)
		}
		if err == nil {
			require.NotZero(t, runs, where)
		}
		close(over)
		strike.Remove()
		l.Srv.RefuseDials(false)
		_, _ = c.Close(), rival.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, dir := range []string{"/m", "/rw", "/s/leases", "/s/locks", "/e"} {
			require.Empty(t, l.Children(dir), where)
		}
	})
	return requests
}

// errorRow is a row of the table "What an error means".
type errorRow struct {
	name  string // its first line there
	again bool
	is    []error
}

// errorRows are the rows of errors before a grant. If several rows fit an error, the first one counts.
var errorRows = []errorRow{
	{"ErrWouldDeadlock, ErrLockOrder,", false, []error{recipes.ErrWouldDeadlock, recipes.ErrLockOrder, recipes.ErrReadOnly, recipes.ErrClosed}},
	{"the error of ctx", false, []error{context.Canceled, context.DeadlineExceeded}},
	{"*HeldError of a Try (ErrHeld)", false, []error{recipes.ErrHeld}},
	{"ErrUnreachable", true, []error{recipes.ErrUnreachable}},
	{"ErrSessionLost", true, []error{recipes.ErrSessionLost}},
	{"ErrLost", true, []error{recipes.ErrLost}},
	{"ErrRevoked", true, []error{recipes.ErrRevoked}},
	{"ErrThrottled", true, []error{recipes.ErrThrottled}},
	{"ErrQueueFull, ErrQuotaExceeded,", false, []error{recipes.ErrQueueFull, recipes.ErrSessionFull, recipes.ErrQuotaExceeded, recipes.ErrTooLarge}},
	{"ErrNotProvisioned, ErrKindMismatch,", false, []error{recipes.ErrNotProvisioned, recipes.ErrKindMismatch, recipes.ErrDraining,
		zk.ErrNoAuth, recipes.ErrTooManyPermits, recipes.ErrSequenceExhausted, recipes.ErrAuth,
		recipes.ErrKeyForeign, recipes.ErrKeyTooLong}},
}

// rowsAfterTheGrant are the rows of errors after a grant.
var rowsAfterTheGrant = []errorRow{
	{"what the function returned", false, []error{errWork}},
	{"ErrReleasePending", false, []error{recipes.ErrReleasePending}},
	{"ErrLost", false, []error{recipes.ErrLost}},
}

// errWork is in every error of aPayment.
var errWork = errors.New("payment failed")

// rowOf finds the row of an error.
func rowOf(err error, ran bool) (errorRow, bool) {
	rows := errorRows
	if ran {
		rows = rowsAfterTheGrant
	}
	for _, row := range rows {
		if slices.ContainsFunc(row.is, func(target error) bool { return errors.Is(err, target) }) {
			return row, true
		}
	}
	return errorRow{}, false
}

// exportedErrors returns the names of the package's errors and of their types.
func exportedErrors(t *testing.T) map[string]bool {
	files := must(filepath.Glob("*.go"))(t)
	names := map[string]bool{}
	for _, file := range files {
		source := must(os.ReadFile(file))(t)
		for _, m := range regexp.MustCompile(`(?m)^(?:var|\t)\s*(Err\w+)\s+= |^type ([A-Z]\w*Error) `).FindAllStringSubmatch(string(source), -1) {
			if !strings.HasSuffix(file, "_test.go") {
				names[m[1]+m[2]] = true
			}
		}
	}
	require.Greater(t, len(names), 20)
	return names
}

func TestTheTableOfErrorsSaysWhatRetryableReturns(t *testing.T) {
	doc := must(os.ReadFile("../docs/safety.md"))(t)
	_, text, _ := strings.Cut(string(doc), "### What an error means")
	text, _, _ = strings.Cut(text, "\n### ")
	before, after, found := strings.Cut(text, "After the grant.")
	require.True(t, found)
	for part, rows := range map[string][]errorRow{before: errorRows, after: rowsAfterTheGrant} {
		for _, row := range rows {
			again := map[bool]string{true: "yes", false: "no"}[row.again]
			require.Regexp(t, `(?m)^    `+regexp.QuoteMeta(row.name)+`  .* `+again+`$`, part)
		}
	}
	_, advice, _ := strings.Cut(string(doc), "### What to do")
	for name := range exportedErrors(t) {
		if name != "ErrReleased" && name != "OpError" { // the one is only the cause of a context, the other wraps other errors
			require.Contains(t, text, name)
		}
		require.Regexp(t, "(?m)^\\| `"+name+"` \\| .{10,} \\|$", advice)
	}
	for _, row := range errorRows {
		for _, err := range row.is {
			require.Equal(t, row.again, recipes.Retryable(fmt.Errorf("lock /m: %w", err)), err)
		}
	}
	require.False(t, recipes.Retryable(nil))
	require.False(t, recipes.Retryable(fmt.Errorf("%w: %w", recipes.ErrSessionLost, recipes.ErrClosed)))
}

func TestTheLoopThatAProgramWritesDoesTheWorkOnce(t *testing.T) {
	for name := range waysToWork() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points := 0
			for _, contended := range []bool{false, true} {
				requests := struck(t, name, 0, mishap{then: func(*lab, int64) {}}, contended)
				for what, m := range mishaps() {
					for n := 1; n <= requests; n++ {
						if points++; points%effort.Of(1, 30) != 0 { // a map has no order, so each run plays other points
							continue
						}
						struck(t, name, n, m, contended)
						if t.Failed() {
							t.Fatalf("at request %d of %d: %s", n, requests, what)
						}
					}
				}
			}
		})
	}
}

func TestAnErrorOfTheWorkIsNotRetryableWhateverItWraps(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for _, why := range []error{recipes.ErrSessionLost, recipes.ErrUnreachable, recipes.ErrLost, recipes.ErrRevoked, recipes.ErrThrottled} {
			require.True(t, recipes.Retryable(why))
			fails := func(context.Context, *recipes.Lease) error { return fmt.Errorf("another system: %w", why) }
			for _, do := range []func(context.Context, work) error{c.Mutex("/m").Do, c.RWMutex("/rw").RDo, c.Election("/e").Lead, mixed(c).Do} {
				err := do(t.Context(), fails)
				require.ErrorIs(t, err, why)
				require.EqualError(t, err, "another system: "+why.Error(), "its text is the caller's")
				require.False(t, recipes.Retryable(err))
				require.False(t, recipes.Retryable(fmt.Errorf("pay: %w", err)))
			}
		}
	})
}

func TestTheLossOfALeaseIsNoReasonToRepeatItsWork(t *testing.T) {
	for name, end := range map[string]func(*lab, *recipes.Client, *recipes.Lease){
		"session lost": func(l *lab, c *recipes.Client, _ *recipes.Lease) { l.Srv.Expire(l.SessionID(c)) },
		"node deleted": func(l *lab, _ *recipes.Client, x *recipes.Lease) { require.NoError(l.T, l.Srv.Delete(x.Node())) },
		"asked back": func(l *lab, c *recipes.Client, x *recipes.Lease) {
			require.NoError(l.T, c.Revoke(l.T.Context(), x.Node()))
		},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			c := l.Client("a")
			x := l.Lock(c.Mutex(l.Mutex()).Lock)
			l.Settle()
			end(l, c, x)
			<-x.Context().Done()
			_, written := x.Multi(t.Context(), &zk.CheckVersionRequest{Path: "/m", Version: -1})
			for _, err := range []error{context.Cause(x.Context()), x.Verify(t.Context()), written, x.Unlock(t.Context())} {
				require.False(t, recipes.Retryable(err), err)
			}
		})
	}
}

func TestALoopAroundDialEndsWithItsContext(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Srv.RefuseDials(true)
		ctx := l.Within(12 * time.Second)
		dials := 0
		for dials < 10 {
			dials++
			_, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk"}, Dialer: l.Srv.DialContext, SessionTimeout: 12 * time.Second})
			require.ErrorIs(t, err, recipes.ErrUnreachable)
			if !recipes.Retryable(err) {
				break
			}
		}
		require.Equal(t, 3, dials, "two of 5 s each, and one that the context ended")
	})
}

// The error of a lost lease said "recipes:" three times.
func TestAnErrorHasOnePrefix(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		l.Declare("/job", kind.Once.New())
		c := l.Client("a")
		o := once.New(c, "/job")
		var job []error
		for _, code := range []zktest.Code{zktest.CodeNoAuth, zktest.CodeNoNode} {
			hold := l.Srv.Inject(func(r zktest.Request) bool { return strings.HasSuffix(r.Path, "once-record") }, zktest.Fail(code))
			job = append(job, o.Skip(t.Context(), "b"))
			hold.Remove()
		}
		start := must(o.Start(t.Context(), "a"))(t)
		m := c.Mutex("/m")
		x := l.Lock(m.Lock)
		y := l.Lock(c.RWMutex("/rw").Lock)
		s := l.session(c)
		l.Srv.Expire(x.SessionID())
		<-x.Context().Done()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, recipes.ErrQueueFull)
		defer cancel()
		_, _, get := s.Get(t.Context(), "/m")
		errs := []error{context.Cause(x.Context()), x.Verify(t.Context()), x.Unlock(t.Context()), get}
		l.Srv.RefuseDials(true)
		_, try := m.TryLock(t.Context())
		_, _, leader := c.Election("/e").Leader(ctx)
		_, waited := m.Lock(ctx)
		ended := start.End(ctx, nil)
		_, wrong := c.Mutex("/m", recipes.WithParams(kind.RWLock.New())).Lock(t.Context())
		require.NoError(t, c.Close())
		_, closed := m.Lock(t.Context())
		_, session := c.Session(t.Context())
		for _, err := range append(append(errs, job...), try, leader, waited, ended, wrong, y.Unlock(t.Context()), closed, session) {
			require.Error(t, err)
			require.Equal(t, 1, strings.Count(err.Error(), "recipes: "), err)
		}
	})
}
