package vet

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutation is the work of examples/quickstart as somebody could have written it, with a mistake.
type mutation struct {
	imports string
	run     string // in place of what the example does with the ledger
	more    string // behind it
	leaves  bool   // the client is not closed
}

var mutations = map[string]mutation{
	"undeclared": {run: `return client.Mutex("/locks/payments/legder").Do(ctx, compact)`},
	"wrongkind":  {run: `return client.Semaphore("/locks/payments/ledger").Do(ctx, 1, compact)`},
	"unreleased": {leaves: true, run: `lease, err := ledger.Lock(ctx)
		if err != nil { return err }
		if err := compact(lease.Context(), nil); err != nil { return err }
		return lease.Unlock(ctx)`},
	"overwritten": {run: `lease, err := ledger.Lock(ctx)
		if err != nil { return err }
		fmt.Println(lease.Token())
		lease, err = audit.Lock(ctx)
		if err != nil { return err }
		return lease.Unlock(ctx)`},
	"discarded": {run: `if _, err := ledger.Lock(ctx); err != nil { return err }
		return compact(ctx, nil)`},
	"unchecked": {run: `lease, _ := ledger.Lock(ctx)
		defer lease.Unlock(ctx)
		return compact(lease.Context(), lease)`},
	"afterunlock": {run: `lease, err := ledger.Lock(ctx)
		if err != nil { return err }
		if err := lease.Unlock(ctx); err != nil { return err }
		return lease.Verify(ctx)`},
	"deferloop": {run: `for _, m := range []*recipes.Mutex{ledger, audit} {
			lease, err := m.Lock(ctx)
			if err != nil { return err }
			defer lease.Unlock(ctx)
			if err := compact(lease.Context(), nil); err != nil { return err }
		}
		return nil`},
	"outerctx": {run: `return ledger.Do(ctx, func(held context.Context, lease *recipes.Lease) error { return compact(ctx, lease) })`},
	"unwatched": {run: `lease, err := ledger.Lock(ctx)
		if err != nil { return err }
		defer lease.Unlock(ctx)
		return compact(ctx, nil)`},
	"relock": {run: `return ledger.Do(ctx, func(ctx context.Context, lease *recipes.Lease) error { return ledger.Do(ctx, compact) })`},
	"lockorder": {run: `return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return audit.Do(ctx, compact) })`,
		more: `func other(ctx context.Context, client *recipes.Client) error {
			return client.Mutex("/locks/payments/audit").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
				return client.Mutex("/locks/payments/ledger").Do(ctx, compact)
			})
		}`},
	"wrongorder": {run: `return client.RWMutex("/locks/shop/stock").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
			return client.Mutex("/locks/shop/account").Do(ctx, compact)
		})`},
	"errequal": {run: `lease, err := ledger.TryLock(ctx)
		if err == recipes.ErrHeld { return nil }
		if err != nil { return err }
		return lease.Unlock(ctx)`},
	"retryall": {run: `for range 3 {
			if err = ledger.Do(ctx, compact); err == nil { return nil }
		}
		return err`},
	"dial": {imports: `"net/http"`, run: `return ledger.Do(ctx, compact)`,
		more: `func serve(w http.ResponseWriter, r *http.Request) { _ = run(r.Context(), nil); _, _ = recipes.Dial(r.Context(), recipes.Config{}) }`},
	"background": {imports: `"net/http"`, run: `http.HandleFunc("/compact", func(w http.ResponseWriter, r *http.Request) { _ = ledger.Do(context.Background(), compact) })
		return nil`},
	"token": {imports: `"database/sql"`, run: `var db *sql.DB
		return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
			_, err := db.ExecContext(ctx, "UPDATE totals SET sum = 1")
			return err
		})`},
}

var ledgers = regexp.MustCompile(`(?s)ledger := .*// readme: end`)

// Each mistake in the program of the quick start is found, and nothing else; without one nothing is.
func TestMistakesInTheQuickStartAreFound(t *testing.T) {
	source, err := os.ReadFile(root + "/examples/quickstart/main.go")
	require.NoError(t, err)
	require.Len(t, mutations, len(Analyzers))
	require.Empty(t, mistakes(t, string(source), mutation{run: `return ledger.Do(ctx, compact)`}))
	for name, m := range mutations {
		require.Equal(t, []string{name}, mistakes(t, string(source), m))
	}
}

func mistakes(t *testing.T, text string, m mutation) (found []string) {
	require.Regexp(t, ledgers, text)
	text = ledgers.ReplaceAllLiteralString(text, `ledger, audit := client.Mutex("/locks/payments/ledger"), client.Mutex("/locks/payments/audit")
		_, _ = ledger, audit
		`+m.run)
	text = strings.Replace(text, "import (", "import (\n"+m.imports, 1)
	if m.leaves {
		text = strings.Replace(text, "defer client.Close()", "", 1)
	}
	text += "\nfunc compact(context.Context, *recipes.Lease) error { fmt.Println(); return nil }\n" + m.more
	if strings.Contains(text, `/quickstart/locks"`) { // its handles are not used here
		text += "\nconst _ = locks.Root\n"
	}
	for _, f := range find(t, payments, map[string]string{"main.go": text}) {
		found = append(found, f.analyzer)
	}
	return found
}
