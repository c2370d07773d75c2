//go:build linux

package claims

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Pooled is what becomes of PostgreSQL's locks behind a pool of connections.
type Pooled struct {
	System   string `json:"system"`
	Grants   int64  `json:"grants"`
	Double   int64  `json:"double_grants"`
	First    string `json:"first_error,omitempty"`
	Stuck    bool   `json:"stuck"`    // within the time nobody was granted the lock any more
	Stranded int    `json:"stranded"` // locks that the server keeps after all clients have left
	Missing  string `json:"missing,omitempty"`
}

// Pool puts a load on each, four workers with connections of their own, and counts.
func (e *Env) Pool(scope *server.Scope, window time.Duration) []Pooled {
	up, err := server.Start(scope, "pgbouncer", server.Options{})
	var rows []Pooled
	for _, s := range drivers.Pooled {
		p := Pooled{System: s.Name}
		if err == nil {
			if failed := e.pooled(s, up, window, &p); failed != nil {
				p.Missing = failed.Error()
			}
		} else {
			p.Missing = err.Error()
		}
		rows = append(rows, p)
	}
	return rows
}

func (e *Env) pooled(s drivers.System, up server.Server, window time.Duration, p *Pooled) error {
	argv, err := s.Command(e.Self, e.Dir, e.TTL)
	if err != nil {
		return err
	}
	clients, err := lock.Spawn(argv, e.TTL)
	if err != nil {
		return err
	}
	defer clients.Kill()
	load := lock.Load{Kind: lock.Mutex, Clients: 4, Workers: 4, Locks: 1, Hold: time.Millisecond}
	// Start fails where not everybody has had a turn in time: what has been counted by then is wanted all the same.
	if err := clients.Start(up.Addrs()[:1], "pooled", load, 0); errors.Is(err, lock.ErrLost) {
		return err
	}
	r, err := clients.Measure(window)
	if err != nil {
		return err
	}
	p.Grants, p.Double, p.First, p.Stuck = r.Total, r.Overlaps, r.First, r.Cycles == 0
	clients.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := pgx.Connect(ctx, "postgres://compare@"+up.Addrs()[1]+"/postgres")
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	// The pool notices that its clients are gone, and ends what they were waiting for.
	for range 20 {
		if err := db.QueryRow(ctx, "select count(*) from pg_locks where locktype = 'advisory' and granted").Scan(&p.Stranded); err != nil || p.Stranded == 0 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
