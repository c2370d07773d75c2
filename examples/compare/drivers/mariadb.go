package drivers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/go-sql-driver/mysql"

	"github.com/locktree/locktree/examples/compare/lock"
)

// mariadb is GET_LOCK: the server queues who waits, and everybody who holds or waits keeps a connection.
type mariadb struct{}

func (mariadb) Dial(_ context.Context, addrs []string) (lock.Client, error) {
	db, err := sql.Open("mysql", "root@tcp("+addrs[0]+")/?interpolateParams=true")
	return mariadbClient{db}, err
}

type mariadbClient struct{ *sql.DB }

func (c mariadbClient) Locker(ctx context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: GET_LOCK is a mutex", lock.ErrNotOffered)
	}
	conn, err := c.Conn(ctx)
	return mariadbLock{conn, what.Names[0]}, err
}

type mariadbLock struct {
	c    *sql.Conn
	name string
}

func (l mariadbLock) Lock(ctx context.Context) error {
	return l.ask(ctx, "select get_lock(?, 3600)")
}

func (l mariadbLock) Unlock(ctx context.Context) error {
	return l.ask(ctx, "select release_lock(?)")
}

// Also is another lock of the same connection.
func (l mariadbLock) Also(name string) lock.Locker { return mariadbLock{l.c, name} }

func (l mariadbLock) ask(ctx context.Context, query string) error {
	var done sql.NullInt64
	if err := l.c.QueryRowContext(ctx, query, l.name).Scan(&done); err != nil {
		return err
	}
	if done.Int64 != 1 {
		return errors.New(query + " said no")
	}
	return nil
}
