package drivers

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/locktree/locktree/examples/compare/lock"
)

// advisory is pg_advisory_lock: the server has the queue, and each holder and each waiter keeps a connection.
func advisory(options string) lock.Driver {
	return onPostgres(options, "select pg_advisory_lock(hashtextextended($1, 0))", "select where pg_advisory_unlock(hashtextextended($1, 0))")
}

// row is a row with a unique index: the client that inserts it has the lock, and the others try again.
var row = onPostgres("", "insert into locks values ($1) on conflict do nothing", "delete from locks where name = $1")

// Pooled is a lock of PostgreSQL through PgBouncer, which gives out a connection for each transaction. A statement that was
// prepared on one connection is unknown on another.
var Pooled = System{Name: "postgres advisory lock, pooled", Server: "pgbouncer", Driver: advisory("?default_query_exec_mode=exec")}

// onPostgres has a connection with these options for each locker. A statement that succeeds affects or returns a row.
func onPostgres(options, take, release string) lock.Driver {
	var of func(c *pgx.Conn, name string) lock.Locker
	of = func(c *pgx.Conn, name string) lock.Locker {
		return lock.Locker{Lock: func(ctx context.Context) error {
			for ; ; time.Sleep(10 * time.Millisecond) {
				if done, err := c.Exec(ctx, take, name); err != nil || done.RowsAffected() == 1 {
					return err
				}
			}
		}, Unlock: func(ctx context.Context) error {
			done, err := c.Exec(ctx, release, name)
			if err == nil && done.RowsAffected() != 1 {
				err = fmt.Errorf("the server says that this connection does not hold %s", name)
			}
			return err
		}, Also: func(name string) lock.Locker { return of(c, name) }}
	}
	return func(addrs []string, _ time.Duration) lock.Client {
		var all []*pgx.Conn
		return lock.Client{Locker: func(name string) lock.Locker {
			all = append(all, lock.Must(pgx.Connect(context.Background(), "postgres://compare@"+addrs[0]+"/postgres"+options)))
			return of(all[len(all)-1], name)
		}, Close: func() (err error) {
			for _, c := range all {
				err = cmp.Or(err, c.Close(context.Background()))
			}
			return err
		}}
	}
}

// mariadb is GET_LOCK: the server has the queue, and each holder and each waiter keeps a connection.
func mariadb(addrs []string, _ time.Duration) lock.Client {
	db := lock.Must(sql.Open("mysql", "root@tcp("+addrs[0]+")/?interpolateParams=true"))
	return lock.Client{Close: db.Close, Locker: func(name string) lock.Locker { return getLock(lock.Must(db.Conn(context.Background())), name) }}
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

// etcd is the mutex of its package concurrency. Workers that want the same lock have a session each, because for that
// mutex one session is one owner. Workers that want different locks share a session.
func etcd(addrs []string, ttl time.Duration) lock.Client {
	c := lock.Must(clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: time.Minute, Logger: zap.NewNop()}))
	var sessions []*concurrency.Session
	used := map[string]int{} // by lock: how many sessions it uses
	return lock.Client{Close: c.Close, Locker: func(name string) lock.Locker {
		if used[name] == len(sessions) {
			sessions = append(sessions, lock.Must(concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))))
		}
		s := sessions[used[name]]
		used[name]++
		m := concurrency.NewMutex(s, "/"+name)
		return lock.Locker{Lock: m.Lock, Unlock: m.Unlock, Token: func() uint64 { return uint64(m.Header().Revision) }, Lost: s.Done}
	}}
}
