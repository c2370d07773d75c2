package drivers

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/go-sql-driver/mysql"

	"github.com/locktree/locktree/examples/compare/lock"
)

// mariadb is GET_LOCK: the server queues who waits, and everybody who holds or waits keeps a connection.
func mariadb(_ context.Context, addrs []string) (lock.Client, error) {
	db, err := sql.Open("mysql", "root@tcp("+addrs[0]+")/?interpolateParams=true")
	if err != nil {
		return lock.Client{}, err
	}
	return lock.Client{Close: db.Close, Locker: func(ctx context.Context, name string) (lock.Locker, error) {
		conn, err := db.Conn(ctx)
		return getLock(conn, name), err
	}}, nil
}

func getLock(c *sql.Conn, name string) lock.Locker {
	ask := func(query string) func(context.Context) error {
		return func(ctx context.Context) error {
			var done sql.NullInt64
			err := c.QueryRowContext(ctx, query, name).Scan(&done)
			if err == nil && done.Int64 != 1 {
				err = errors.New(query + " said no")
			}
			return err
		}
	}
	return lock.Locker{Lock: ask("select get_lock(?, 3600)"), Unlock: ask("select release_lock(?)"),
		Also: func(name string) lock.Locker { return getLock(c, name) }}
}
