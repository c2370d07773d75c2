package fixture

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/locktree/locktree/recipes"
)

func work(context.Context) error { return nil }

type service struct {
	m     *recipes.Mutex
	lease *recipes.Lease
}

func leak(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.Lock(ctx) // want unreleased:`l is not released on all paths: the function may end on line 26 without Unlock`
	if err != nil {
		return err
	}
	if err = work(l.Context()); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func leakTry(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.TryLock(ctx) // want unreleased:`line 41`
	switch {
	case errors.Is(err, recipes.ErrHeld):
		return nil
	case err != nil:
		return err
	}
	fmt.Println(l.Token())
	if l.Verify(ctx) != nil {
		return nil
	}
	l.Unlock(ctx)
	return nil
}

func leakAnd(ctx context.Context, m *recipes.Mutex, wanted bool) {
	if l, err := m.Lock(ctx); err == nil && wanted { // want unreleased:`line 52`
		fmt.Println(l.Token())
	}
	_ = 0
}

func leakNoError(ctx context.Context, m *recipes.Mutex) {
	l, _ := m.Lock(ctx) // want unreleased:`line 57` unchecked:`the error of Lock is thrown away: if there is one, l is nil`
	fmt.Println(l.Token())
}

func checksLease(ctx context.Context, m *recipes.Mutex) error {
	l, _ := m.TryLock(ctx)
	if l == nil {
		return nil // somebody else does it
	}
	defer l.Unlock(ctx)
	return work(l.Context())
}

func released(ctx context.Context, m *recipes.Mutex, s *service) error {
	l, err := m.Lock(ctx)
	if nil != err {
		return err
	}
	if l.Token() == 0 {
		os.Exit(1)
	}
	if l.Token() == 1 {
		log.Fatal("no")
	}
	if l.Token() == 2 {
		panic("no")
	}
	if l.Token() == 3 {
		s.lease = l // somebody else's
		return nil
	}
	if l.Token() == 4 {
		<-l.Context().Done() // it is over
		return nil
	}
	if l.Token() == 5 {
		go finish(l)
		return nil
	}
	defer func() { l.Unlock(context.Background()) }()
	return work(l.Context())
}

func finish(l *recipes.Lease) { l.Unlock(context.Background()) }

func returned(ctx context.Context, m *recipes.Mutex) (*recipes.Lease, error) {
	l, err := m.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return l, nil
}

func examined(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.TryLock(ctx)
	if !fine(err) {
		return err
	}
	if l != nil {
		defer l.Unlock(ctx)
	}
	return nil
}

func fine(err error) bool { return err == nil }

func deferredBefore(ctx context.Context, m *recipes.Mutex) error {
	var l *recipes.Lease
	var err error
	defer func() {
		if l != nil {
			l.Unlock(context.Background())
		}
	}()
	l, err = m.Lock(ctx)
	if err != nil {
		return err
	}
	return work(l.Context())
}

func untilLost(ctx context.Context, e *recipes.Election) error {
	l, err := e.Campaign(ctx)
	if err != nil {
		return err
	}
	leading := l.Context()
	for leading.Err() == nil {
		if work(leading) != nil {
			return l.Unlock(ctx)
		}
	}
	return nil
}

func onlyNil(ctx context.Context, m *recipes.Mutex) {
	if l, err := m.TryLock(ctx); err == nil || !errors.Is(err, recipes.ErrHeld) {
		if l != nil {
			l.Unlock(ctx)
		}
	}
}

func closes(ctx context.Context) error {
	c, err := recipes.Dial(ctx, recipes.Config{})
	if err != nil {
		return err
	}
	defer c.Close() // releases all
	l, err := c.Mutex("/locks/payments/ledger").Lock(ctx)
	if err != nil {
		return err
	}
	return work(l.Context())
}

func again(ctx context.Context, m, n *recipes.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	l, err = n.Lock(ctx) // want overwritten:`the lease in l, taken on line 172, may still be held here: release it first`
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	l, err = m.Lock(ctx) // the deferred call has the one before
	if err != nil {
		return err
	}
	return finish2(l)
}

func finish2(l *recipes.Lease) error { return l.Unlock(context.Background()) }

func rounds(ctx context.Context, m *recipes.Mutex) {
	for {
		l, err := m.Lock(ctx) // want overwritten:`taken on line 192`
		if err != nil {
			continue
		}
		if l.Token() > 7 {
			l.Unlock(ctx)
		}
	}
}

func downgrade(ctx context.Context, m *recipes.RWMutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	l, err = m.Downgrade(ctx, l)
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func thrown(ctx context.Context, m *recipes.Mutex, e *recipes.Election) error {
	m.Lock(ctx)               // want discarded:`the lease of Lock is thrown away`
	go m.Lock(ctx)            // want discarded:`the lease of Lock`
	_, err := e.Campaign(ctx) // want discarded:`the lease of Campaign is thrown away`
	_ = m.Do(ctx, func(context.Context, *recipes.Lease) error { return nil })
	return err
}

func late(ctx context.Context, m *recipes.Mutex, when bool) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if when {
		l.Unlock(ctx)
	}
	if !when {
		l.Verify(ctx) // only where it was not released
	}
	l.Unlock(ctx)
	fmt.Println(l.Token(), context.Cause(l.Context()))
	if err := work(l.Context()); err != nil { // want afterunlock:`the lease was released on line 233: it guards nothing here`
		return err
	}
	l, err = m.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return l.Verify(ctx)
}

func loops(ctx context.Context, c *recipes.Client, ids []string) error {
	for _, id := range ids {
		l, err := c.Mutex(id).Lock(ctx)
		if err != nil {
			return err
		}
		defer l.Unlock(ctx) // want deferloop:`a deferred release in a loop runs when the function returns`
	}
	for { // once it is taken, the loop is over
		l, err := c.Mutex("/locks/payments/ledger").TryLock(ctx)
		if err != nil {
			continue
		}
		defer l.Unlock(ctx)
		return work(l.Context())
	}
}

func literalInLoop(ctx context.Context, c *recipes.Client, ids []string) {
	for _, id := range ids {
		func() {
			if l, err := c.Mutex(id).Lock(ctx); err == nil {
				defer l.Unlock(ctx)
			}
		}()
	}
}

func given(ctx context.Context, l *recipes.Lease) error {
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	return l.Verify(ctx) // want afterunlock:`released on line 275`
}

func handedOn(ctx context.Context, take func() (*recipes.Lease, error)) error {
	for {
		l, err := take()
		if err != nil {
			return err
		}
		defer l.Unlock(ctx) // want deferloop:`a deferred release in a loop`
	}
}
