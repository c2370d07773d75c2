package fixture

import (
	"context"

	"github.com/locktree/locktree/recipes"
)

func work(context.Context, *recipes.Lease) error { return nil }

func twice(ctx context.Context, c *recipes.Client, param *recipes.Mutex, path string) error {
	m, re := c.Mutex(path), c.Mutex("/locks/payments/audit", recipes.WithReentrancy())
	_ = re.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return re.Do(ctx, work) })
	_ = param.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return param.Do(ctx, work) }) // perhaps it is reentrant
	_ = m.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		go m.Do(ctx, work)
		return m.Do(ctx, work) // want relock:`m is held here since line 15, and is not reentrant`
	})
	l, err := c.Mutex("/locks/payments/ledger").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	again, err := c.Mutex("/locks/payments/ledger").Lock(l.Context()) // want relock:`held here since line 19`
	if err != nil {
		return err
	}
	return again.Unlock(ctx)
}

func upgrade(ctx context.Context, c *recipes.Client) error {
	m := c.RWMutex("/locks/payments/rw", recipes.WithCreate())
	return m.RDo(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		l, err := m.TryLock(ctx) // does not wait
		if err == nil {
			_ = l.Unlock(ctx)
		}
		return m.Do(ctx, work) // want relock:`m is held here`
	})
}

func chain(ctx context.Context, c *recipes.Client, paths []string) {
	for _, path := range paths {
		m := c.Mutex(path)
		l, err := m.Lock(ctx)
		if err != nil {
			continue
		}
		_ = l.Unlock(ctx)
		_ = m.Do(ctx, work)
	}
}

type bank struct{ ledger, audit, gate *recipes.Mutex }

func open(c *recipes.Client) *bank {
	return &bank{c.Mutex("/locks/payments/ledger"), c.Mutex("/locks/payments/audit"), c.Mutex("/locks/payments/gate", recipes.WithCreate())}
}

func (b *bank) debit(ctx context.Context) error {
	return b.ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return b.audit.Do(ctx, work) })
}

func (b *bank) review(ctx context.Context) error {
	l, err := b.audit.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return b.ledger.Do(l.Context(), work) // want lockorder:`b.ledger is taken while b.audit is held, and in nesting.go:61 it is the other way round`
}

func (b *bank) gated1(ctx context.Context) error {
	return b.gate.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return b.audit.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx, nil) })
	})
}

func readers(ctx context.Context, c *recipes.Client) {
	a, b := c.RWMutex("/a", recipes.WithCreate()), c.RWMutex("/b", recipes.WithCreate())
	_ = a.RDo(ctx, func(ctx context.Context, _ *recipes.Lease) error { return b.RDo(ctx, work) })
	_ = b.RDo(ctx, func(ctx context.Context, _ *recipes.Lease) error { return a.RDo(ctx, work) })
}

func behindGate(ctx context.Context, c *recipes.Client) {
	g, x, y := c.Mutex("/g", recipes.WithCreate()), c.Mutex("/x", recipes.WithCreate()), c.Mutex("/y", recipes.WithCreate())
	_ = g.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		_ = x.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return y.Do(ctx, work) })
		return y.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return x.Do(ctx, work) })
	})
}

func regions(ctx context.Context, east, west *recipes.Client) error {
	return east.Mutex("/locks/payments/ledger").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return west.Mutex("/locks/payments/ledger").Do(ctx, work) // of another ensemble
	})
}

func twoKeys(ctx context.Context, c *recipes.Client) error {
	orders := c.Keyed("/locks/orders")
	return orders.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return orders.Do(ctx, work, "b") }, "a")
}

type branch struct{ client *recipes.Client }

func branches(ctx context.Context, east, west branch) error {
	return east.client.Mutex("/locks/payments/ledger").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		_ = west.client.Mutex("/locks/payments/ledger").Do(ctx, work)    // of another ensemble
		return east.client.Mutex("/locks/payments/ledger").Do(ctx, work) // want relock:`held here since line 107`
	})
}

func banks(ctx context.Context, c, d *recipes.Client) error {
	east, west := open(c), open(d)
	return east.gate.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		_ = west.gate.Do(ctx, work)
		return east.gate.Do(ctx, work) // want relock:`held here since line 115`
	})
}

type region struct{ bank *bank }

func regional(ctx context.Context, east, west region) error {
	return east.bank.gate.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return west.bank.gate.Do(ctx, work) })
}

func dialled(ctx context.Context, dial func(string) *recipes.Client) error {
	return dial("east").Mutex("/locks/payments/ledger").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return dial("west").Mutex("/locks/payments/ledger").Do(ctx, work)
	})
}
