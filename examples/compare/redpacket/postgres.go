//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// postgresSeat locks with an advisory lock, and writes over the connection that has it.
type postgresSeat struct {
	c   *pgx.Conn
	url string
}

func onPostgres(_ *game, url string) opener {
	return func(ctx context.Context) (seat, error) {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		return &postgresSeat{c, url}, nil
	}
}

func (s *postgresSeat) layOut(ctx context.Context, pot int64, workers int) error {
	_, err := s.c.Exec(ctx, "create table redpacket (worker int primary key, cents bigint not null)")
	if err == nil {
		_, err = s.c.Exec(ctx, "insert into redpacket select n, case n when -1 then $1::bigint else 0 end from generate_series(-1, $2::int - 1) n", pot, workers)
	}
	if err != nil {
		err = fmt.Errorf("lay out the pot: %w (a pot of an earlier run? drop table redpacket first)", err)
	}
	return err
}

const pgLock = "(hashtextextended('redpacket', 0))"

func (s *postgresSeat) lock(ctx context.Context) error {
	_, err := s.c.Exec(ctx, "select pg_advisory_lock"+pgLock)
	return err
}

func (s *postgresSeat) unlock(ctx context.Context) error {
	_, err := s.c.Exec(ctx, "select pg_advisory_unlock"+pgLock)
	return err
}

func (s *postgresSeat) read(ctx context.Context, worker int) (pot, wallet int64, err error) {
	err = s.c.QueryRow(ctx, "select p.cents, w.cents from redpacket p, redpacket w where p.worker = -1 and w.worker = $1", worker).Scan(&pot, &wallet)
	return pot, wallet, err
}

func (s *postgresSeat) write(ctx context.Context, worker int, pot, wallet int64) error {
	_, err := s.c.Exec(ctx, "update redpacket set cents = case worker when -1 then $1::bigint else $2::bigint end where worker in (-1, $3)", pot, wallet, worker)
	return err
}

// cut is what a firewall or an administrator does. The server gives the lock to the next.
func (s *postgresSeat) cut(ctx context.Context) error {
	admin, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	_, err = admin.Exec(ctx, "select pg_terminate_backend($1)", int32(s.c.PgConn().PID()))
	return err
}

func (s *postgresSeat) close() { _ = s.c.Close(context.Background()) }
