package fixture

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/locktree/locktree/recipes"
)

func pay(context.Context, *recipes.Lease) error { return nil }

func compare(err error) string {
	if err == recipes.ErrHeld { // want errequal:`errors wrap recipes.ErrHeld: use errors.Is`
		return "held"
	}
	switch err {
	case recipes.ErrLost: // want errequal:`recipes.ErrLost`
	case context.Canceled:
	}
	if h, ok := err.(*recipes.HeldError); ok { // want errequal:`use errors.As`
		return h.Error()
	}
	if errors.Is(err, recipes.ErrHeld) || err == sql.ErrNoRows {
		return "other"
	}
	return ""
}

func retry(ctx context.Context, m *recipes.Mutex, e *recipes.Election) (err error) {
	for range 3 {
		err = m.Do(ctx, pay) // want retryall:`repeat only if recipes.Retryable\(err\)`
		if err == nil {
			break
		}
		log.Println(err)
	}
	for range 3 {
		if err = m.Do(ctx, pay); err == nil || !recipes.Retryable(err) {
			return err
		}
	}
	for range 3 {
		if err = m.Do(ctx, pay); err == nil {
			return nil
		}
		if errors.Is(err, context.Canceled) { // it chooses
			return err
		}
	}
	for { // a job that comes again is no retry
		if err := m.Do(ctx, pay); err != nil {
			log.Println(err)
		}
		if err := e.Lead(ctx, pay); err == nil {
			return nil
		}
	}
}

func store(ctx context.Context, m *recipes.Mutex, db *sql.DB) {
	_ = m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
		_, err := db.ExecContext(ctx, "UPDATE t SET x = 1") // want token:`does not carry the lease's Token`
		return err
	})
	_ = m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
		_, err := db.ExecContext(ctx, "UPDATE t SET x = 1 WHERE token <= $1", l.Token())
		return err
	})
	_ = m.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return db.QueryRowContext(ctx, "SELECT 1").Err()
	})
}

type refused struct{}

func (refused) Error() string { return "refused" }

// Is is what errors.Is calls with each error of the chain: there the comparison is right.
func (refused) Is(target error) bool { return target == recipes.ErrHeld }
