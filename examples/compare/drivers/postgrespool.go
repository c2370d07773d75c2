package drivers

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/examples/compare/lock"
)

// transactional is pg_advisory_xact_lock, which ends with its transaction: the advisory lock for a pool that gives every
// transaction another connection.
func transactional() lock.Driver {
	return onPostgres(unprepared, func(ctx context.Context, c *pgx.Conn, name string) error {
		if _, err := c.Exec(ctx, "begin"); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1, 0))", name)
		return err
	}, func(ctx context.Context, c *pgx.Conn, _ string) (bool, error) {
		_, err := c.Exec(ctx, "commit")
		return true, err
	})
}

// unprepared: a statement is prepared on one connection, and the next transaction may have another.
const unprepared = "?default_query_exec_mode=exec"

// Pooled are locks of PostgreSQL through PgBouncer, which hands out its connections a transaction at a time.
var Pooled = []System{
	{Name: "postgres advisory lock, pooled", Server: "pgbouncer", driver: advisory(unprepared)},
	{Name: "postgres transaction lock, pooled", Server: "pgbouncer", driver: transactional()},
}
