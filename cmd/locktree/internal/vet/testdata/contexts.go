package fixture

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/locktree/locktree/recipes"
)

func work(context.Context) error                { return nil }
func pay(context.Context, *recipes.Lease) error { return nil }

func outside(ctx context.Context, m, n *recipes.Mutex, e *recipes.Election, apply func(context.Context) error) error {
	_ = m.Do(ctx, func(own context.Context, l *recipes.Lease) error {
		slog.InfoContext(ctx, "held")
		go work(ctx)
		defer work(ctx)
		detached := context.WithoutCancel(ctx)
		_ = work(detached)
		_ = l.Unlock(ctx)
		short, cancel := context.WithTimeout(ctx, 1) // want outerctx:`ctx is the context from outside of Do`
		defer cancel()
		_ = apply(ctx)     // want outerctx:`ctx is the context`
		_ = n.Do(ctx, pay) // want outerctx:`from outside of Do`
		_ = work(short)
		return work(own)
	})
	_ = m.Do(context.WithoutCancel(ctx), func(context.Context, *recipes.Lease) error { return work(ctx) }) // not the one that Do got
	return e.Lead(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx) })
}

func serve(m *recipes.Mutex, bounded *recipes.Client) {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_ = m.Do(r.Context(), func(own context.Context, _ *recipes.Lease) error {
			_ = work(r.Context()) // want outerctx:`r.Context\(\) is the context from outside`
			return work(own)
		})
	})
}

func blind(ctx context.Context, m *recipes.Mutex, n *recipes.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return work(ctx)
	}
	slog.InfoContext(ctx, "held")
	if err := work(ctx); err != nil { // want unwatched:`this goes on when the lock taken on line 43 is lost, and nothing here notices: give it l.Context\(\)`
		_ = l.Unlock(ctx)
		return err
	}
	_ = l.Unlock(ctx)
	return work(ctx)
}

func seeing(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	if err := work(ctx); err != nil {
		return err
	}
	return l.Verify(ctx)
}

type handlers struct {
	client   *recipes.Client
	m, short *recipes.Mutex
	other    *recipes.Mutex
}

func make1(c *recipes.Client) *handlers {
	return &handlers{client: c, m: c.Mutex("/locks/payments/ledger"), short: c.Mutex("/locks/payments/audit", recipes.WithMaxWait(1))}
}

func (h *handlers) pay(w http.ResponseWriter, r *http.Request) {
	_ = h.m.Do(context.Background(), pay)     // want background:`this request may wait for ever: give Do the request's context`
	_ = h.short.Do(context.Background(), pay) // bounded
	_ = h.other.Do(context.Background(), pay) // not known
	_ = h.m.Do(r.Context(), pay)
	c, err := recipes.Dial(r.Context(), recipes.Config{}) // want dial:`makes a client, which is a session of ZooKeeper, for each request`
	if err == nil {
		c.Close()
	}
}

func replaced(ctx context.Context, m *recipes.Mutex) error {
	return m.Do(ctx, func(own context.Context, _ *recipes.Lease) error {
		ctx = own
		return work(ctx)
	})
}

func parenthesized(m *recipes.Mutex, r *http.Request) error {
	return m.Do((r.Context)(), func(own context.Context, _ *recipes.Lease) error {
		return work((r.Context)()) // want outerctx:`context from outside`
	})
}
