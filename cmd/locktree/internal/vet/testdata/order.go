package fixture

import (
	"context"

	"github.com/locktree/locktree/examples/recipes/locks"
	"github.com/locktree/locktree/recipes"
)

func work(context.Context, *recipes.Lease) error { return nil }

func against(ctx context.Context, c *recipes.Client) error {
	account, stock, items := c.Mutex("/locks/shop/account"), c.RWMutex("/locks/shop/stock"), c.Keyed("/locks/shop/item")
	hall, none := c.Mutex("/locks/hall/stock"), c.Mutex("/locks/payments/audit")
	_ = account.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return items.Do(ctx, work, "a") })
	_ = none.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return account.Do(ctx, work) })
	_ = hall.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return account.Do(ctx, work) }) // of another order
	_ = items.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return items.Do(ctx, work, "b") }, "a")
	_ = stock.RDo(ctx, func(held context.Context, _ *recipes.Lease) error {
		_ = none.Do(held, func(ctx context.Context, _ *recipes.Lease) error {
			return items.Do(ctx, work, "a") // want wrongorder:`items comes before stock in the order that /locks/shop declares, and is taken while that is held`
		})
		_ = c.Mutex("/locks/shop/item/4711").Do(held, work) // want wrongorder:`comes before stock`
		if l, err := account.TryLock(held); err == nil {    // want wrongorder:`account comes before stock`
			_ = l.Unlock(ctx)
		}
		return nil
	})
	l, err := stock.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	if a, err := account.TryLock(ctx); err == nil { // waits for nobody, and nothing says that stock is held
		_ = a.Unlock(ctx)
	}
	if a, err := account.TryLock(l.Context()); err == nil { // want wrongorder:`account comes before stock`
		_ = a.Unlock(ctx)
	}
	return account.Do(l.Context(), work) // want wrongorder:`account comes before stock`
}

func generated(ctx context.Context, c *recipes.Client) {
	r := locks.At(c, locks.Root).Recipes
	_ = r.Account(locks.RecipesAccountAlice).Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		_ = r.Account(locks.RecipesAccountBob).Do(ctx, work)
		_ = r.Turns().Do(ctx, work)
		return r.Prices().RDo(ctx, work) // want wrongorder:`r.Prices\(\) comes before r.Account\(locks.RecipesAccountAlice\) in the order that /recipes declares`
	})
	_ = r.Turns().Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return r.Prices().Do(ctx, work) })
	_ = r.Prices().Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return r.Account(locks.RecipesAccountBob).Do(ctx, work)
	})
}
