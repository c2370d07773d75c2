package drivers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/examples/compare/lock"
)

// advisory is pg_advisory_lock: the server queues who waits, and everybody who holds or waits keeps a connection.
func advisory(options string) lock.Driver {
	return onPostgres(options, func(ctx context.Context, c *pgx.Conn, name string) error {
		_, err := c.Exec(ctx, "select pg_advisory_lock(hashtextextended($1, 0))", name)
		return err
	}, func(ctx context.Context, c *pgx.Conn, name string) (held bool, err error) {
		return held, c.QueryRow(ctx, "select pg_advisory_unlock(hashtextextended($1, 0))", name).Scan(&held)
	})
}

const again = 10 * time.Millisecond

// row is a row with a unique index: who inserts it has the lock, and who cannot tries again.
func row() lock.Driver {
	return onPostgres("", func(ctx context.Context, c *pgx.Conn, name string) error {
		for {
			done, err := c.Exec(ctx, "insert into locks values ($1) on conflict do nothing", name)
			if err != nil || done.RowsAffected() == 1 {
				return err
			}
			time.Sleep(again)
		}
	}, func(ctx context.Context, c *pgx.Conn, name string) (held bool, err error) {
		done, err := c.Exec(ctx, "delete from locks where name = $1", name)
		return done.RowsAffected() == 1, err
	})
}

// onPostgres has a connection for each locker, with such options. release says whether the lock was held.
func onPostgres(options string, take func(context.Context, *pgx.Conn, string) error, release func(context.Context, *pgx.Conn, string) (bool, error)) lock.Driver {
	var of func(c *pgx.Conn, name string) lock.Locker
	of = func(c *pgx.Conn, name string) lock.Locker {
		return lock.Locker{Lock: func(ctx context.Context) error { return take(ctx, c, name) }, Unlock: func(ctx context.Context) error {
			held, err := release(ctx, c, name)
			if err == nil && !held {
				err = fmt.Errorf("the server says that this connection does not hold %s", name)
			}
			return err
		}, Also: func(name string) lock.Locker { return of(c, name) }}
	}
	return func(_ context.Context, addrs []string) (lock.Client, error) {
		var all []*pgx.Conn
		return lock.Client{Locker: func(ctx context.Context, name string) (lock.Locker, error) {
			c, err := pgx.Connect(ctx, "postgres://compare@"+addrs[0]+"/postgres"+options)
			if err == nil {
				all = append(all, c)
			}
			return of(c, name), err
		}, Close: func() (err error) {
			for _, c := range all {
				err = cmp.Or(err, c.Close(context.Background()))
			}
			return err
		}}, nil
	}
}
