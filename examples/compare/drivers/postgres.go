package drivers

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/examples/compare/lock"
)

// advisory is pg_advisory_lock: the server queues who waits, and everybody who holds or waits keeps a connection.
type advisory struct{ options string } // of the connection

func (a advisory) Dial(_ context.Context, addrs []string) (lock.Client, error) {
	return &postgresClient{addr: addrs[0] + "/postgres" + a.options, take: func(ctx context.Context, c *pgx.Conn, name string) error {
		_, err := c.Exec(ctx, "select pg_advisory_lock(hashtextextended($1, 0))", name)
		return err
	}, release: func(ctx context.Context, c *pgx.Conn, name string) (held bool, err error) {
		return held, c.QueryRow(ctx, "select pg_advisory_unlock(hashtextextended($1, 0))", name).Scan(&held)
	}}, nil
}

// row is a row with a unique index: who inserts it has the lock, and who cannot tries again.
type row struct{}

const again = 10 * time.Millisecond

func (row) Dial(_ context.Context, addrs []string) (lock.Client, error) {
	return &postgresClient{addr: addrs[0] + "/postgres", take: func(ctx context.Context, c *pgx.Conn, name string) error {
		for {
			done, err := c.Exec(ctx, "insert into locks values ($1) on conflict do nothing", name)
			if err != nil || done.RowsAffected() == 1 {
				return err
			}
			time.Sleep(again)
		}
	}, release: func(ctx context.Context, c *pgx.Conn, name string) (bool, error) {
		done, err := c.Exec(ctx, "delete from locks where name = $1", name)
		return done.RowsAffected() == 1, err
	}}, nil
}

type postgresClient struct {
	addr    string
	take    func(context.Context, *pgx.Conn, string) error
	release func(context.Context, *pgx.Conn, string) (held bool, err error)
	conns   []*pgx.Conn
}

func (p *postgresClient) Locker(ctx context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: a mutex is compared", lock.ErrNotOffered)
	}
	c, err := pgx.Connect(ctx, "postgres://compare@"+p.addr)
	if err != nil {
		return nil, err
	}
	p.conns = append(p.conns, c)
	return &postgresLock{p, c, what.Names[0]}, nil
}

type postgresLock struct {
	p    *postgresClient
	c    *pgx.Conn
	name string
}

func (l *postgresLock) Lock(ctx context.Context) error { return l.p.take(ctx, l.c, l.name) }
func (l *postgresLock) Also(name string) lock.Locker   { return &postgresLock{l.p, l.c, name} }

func (l *postgresLock) Unlock(ctx context.Context) error {
	held, err := l.p.release(ctx, l.c, l.name)
	if err == nil && !held {
		err = fmt.Errorf("the server says that this connection does not hold %s", l.name)
	}
	return err
}
