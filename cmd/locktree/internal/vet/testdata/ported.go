package fixture

import (
	"context"
	"errors"
	"log"

	"github.com/locktree/locktree/recipes"
)

// The cases here are what ports of other projects' programs to the library showed.

func work(context.Context) error { return nil }

type logger struct{}

func (logger) Error(context.Context, string)            {}
func (logger) Infof(context.Context, string, ...any)    {}
func (logger) Error2(context.Context, string) error     { return nil }
func withID(ctx context.Context, _ int) context.Context { return ctx }

// campaign is a leader that stops when it is told to, as kvrocks-controller.
func campaign(ctx context.Context, e *recipes.Election, quit chan struct{}) {
	for {
	reset:
		l, err := e.Campaign(ctx) // want unreleased:`may end on line 34`
		if err != nil {
			continue
		}
		select {
		case <-l.Context().Done():
			goto reset
		case <-quit:
			return
		}
	}
}

func quits(ctx context.Context, e *recipes.Election, quit, stop chan struct{}) error {
	l, err := e.Campaign(ctx)
	if err != nil {
		return err
	}
	select {
	case <-l.Context().Done():
		return context.Cause(l.Context())
	case <-quit:
		return l.Unlock(ctx)
	case <-stop:
	}
	l.Unlock(ctx)
	return nil
}

func terminates(ctx context.Context, e *recipes.Election, quit, stop chan struct{}) error {
	l, err := e.Campaign(ctx)
	if err != nil {
		return err
	}
	select {
	case <-stop:
		return l.Unlock(ctx)
	case <-quit:
		l.Unlock(ctx)
		return nil
	}
}

func polls(ctx context.Context, e *recipes.Election, quit chan struct{}) error {
	l, err := e.Campaign(ctx) // want unreleased:`may end on line 79`
	if err != nil {
		return err
	}
	select {
	case <-quit:
		return l.Unlock(ctx)
	default:
	}
	return errors.New("not yet")
}

func handed(ctx context.Context, e *recipes.Election, to chan *recipes.Lease, quit chan struct{}) error {
	l, err := e.Campaign(ctx)
	if err != nil {
		return err
	}
	select {
	case to <- l:
		return nil
	case <-quit:
		return l.Unlock(ctx)
	}
}

// switched looks at the error with a switch, as kafka-kit.
func switched(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.TryLock(ctx)
	switch err {
	case nil:
		defer l.Unlock(ctx)
	case context.Canceled:
		return nil
	default:
		return err
	}
	return work(ctx) // want unwatched:`the lock taken on line 97`
}

func switchedLeak(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.TryLock(ctx) // want unreleased:`may end on lines 117, 119`
	if err == context.Canceled {
		return nil
	}
	switch err {
	case nil:
		if work(l.Context()) != nil {
			return nil
		}
		return nil
	}
	return err
}

// request derives a context at the top, as chall-manager, and gives the lease to a deferred literal.
func request(ctx context.Context, m *recipes.Mutex, log logger, id int) error {
	ctx = withID(ctx, id)
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func(l *recipes.Lease) {
		if err := l.Unlock(context.WithoutCancel(ctx)); err != nil {
			log.Error(ctx, "unlock")
		}
	}(l)
	ctx = withID(ctx, id+1)
	log.Infof(ctx, "locked")
	return work(ctx) // want unwatched:`the lock taken on line 127`
}

func onlyLogs(ctx context.Context, m *recipes.Mutex, log logger) {
	l, err := m.Lock(ctx)
	if err != nil {
		return
	}
	defer l.Unlock(ctx)
	own := withID(ctx, 1)
	log.Error(own, "locked")
}

func derived(ctx context.Context, m *recipes.Mutex, log logger) error {
	return m.Do(ctx, func(held context.Context, _ *recipes.Lease) error {
		own := withID(ctx, 1)
		log.Error(own, "locked")
		_ = log.Error2(held, "locked")
		return work(own) // want outerctx:`own is the context from outside`
	})
}

func carried(ctx context.Context, m *recipes.Mutex) error {
	return m.Do(ctx, func(held context.Context, _ *recipes.Lease) error {
		ctx = context.WithValue(held, logger{}, ctx.Value(logger{}))
		return work(ctx)
	})
}

func lentAndUsed(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func(l *recipes.Lease) {
		if l.Verify(ctx) != nil {
			log.Print("lost")
		}
		l.Unlock(ctx)
	}(l)
	return work(ctx)
}

// owner resigns unless it has lost its lease, as TiCDC.
func owner(ctx context.Context, e *recipes.Election, run func(*recipes.Election, context.Context) error) error {
	for {
		l, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		err = run(e, l.Context())
		if !errors.Is(err, recipes.ErrLost) {
			if err := l.Unlock(context.Background()); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// shutdown takes a lock as well as it can, as serviced.
func shutdown(ctx context.Context, m *recipes.Mutex, stop chan struct{}) {
	l, _ := m.Lock(ctx) // want unchecked:`the error of Lock is thrown away`
	defer l.Unlock(ctx)
	close(stop)
}

// applyLock looks at the error of TryLock twice, as apply did once.
func applyLock(ctx context.Context, m *recipes.Mutex) (*recipes.Lease, error) {
	l, err := m.TryLock(ctx)
	if err != nil && errors.Is(err, recipes.ErrHeld) {
		l, err = m.Lock(ctx)
	}
	switch {
	case err == nil:
		return l, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, recipes.ErrLost):
		return nil, err
	default:
		return nil, err
	}
}

func anotherError(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.TryLock(ctx) // want unreleased:`may end on line 232`
	if err != nil {
		return err
	}
	err = work(l.Context())
	if err != nil {
		return err
	}
	l.Unlock(ctx)
	return nil
}

func errorInLiteral(ctx context.Context, m *recipes.Mutex, do func(func())) error {
	l, err := m.TryLock(ctx) // want unreleased:`may end on line 245`
	if err != nil {
		return err
	}
	do(func() { err = work(l.Context()) })
	if err != nil {
		return err
	}
	l.Unlock(ctx)
	return nil
}

func askedAgain(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.TryLock(ctx)
	if err != nil {
		return err
	}
	if errors.Is(err, context.Canceled) { // never: it is nil
		return nil
	}
	return l.Unlock(ctx)
}

func anotherContext(ctx context.Context, m *recipes.Mutex, of func() context.Context) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(context.Background())
	ctx = of() // perhaps the lease's
	return work(ctx)
}

func lentUnnamed(ctx context.Context, m *recipes.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func(*recipes.Lease) {}(l)
	return work(l.Context())
}

func ofEachOther(m *recipes.Mutex) error {
	var b context.Context
	a := withID(b, 1)
	b = withID(a, 2)
	l, err := m.Lock(a)
	if err != nil {
		return err
	}
	defer l.Unlock(b)
	return work(a) // want unwatched:`the lock taken on line 285`
}
