//go:build linux

package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Failover is what becomes of a lock when the server dies that granted it, and another takes its place.
type Failover struct {
	System  string `json:"system"`
	Server  string `json:"server"` // what happens to it
	Trials  int    `json:"trials"`
	Double  int    `json:"double_grants"` // a rival was granted the lock, too
	Kept    int    `json:"kept"`          // the holder still has it
	Missing string `json:"missing,omitempty"`
}

// lag of a replica: a network across a town, or a pause of its process.
const lag = 50 * time.Millisecond

// Failover kills servers of its own.
func (e *Env) Failover(trials int) (all []Failover) {
	if e.Servers["redis"] != nil {
		for _, behind := range []time.Duration{lag, 0} {
			f := Failover{System: "redislock", Server: "the primary is killed as soon as it has answered; its replica on the same machine is promoted"}
			if behind > 0 {
				f.Server = fmt.Sprintf("the primary is killed as soon as it has answered; its replica, %v behind, is promoted", behind)
			}
			f.repeat(trials, func(scope *server.Scope) error { return f.promote(scope, behind) })
			all = append(all, f)
		}
	}
	if e.Servers["three-redis"] != nil {
		f := Failover{System: "redsync", Server: "one of three servers is killed, and starts again with an empty memory"}
		f.repeat(trials, f.forget)
		all = append(all, f)
	}
	if e.Servers["zookeeper"] != nil {
		all = append(all, e.election()...)
	}
	return all
}

func (f *Failover) repeat(trials int, trial func(*server.Scope) error) {
	for range trials {
		scope := &server.Scope{}
		err := trial(scope)
		scope.Close()
		if err != nil {
			f.Missing = err.Error()
			return
		}
		f.Trials++
	}
}

// promote has a holder on the primary and lets a rival ask the replica, once that is promoted.
func (f *Failover) promote(scope *server.Scope, behind time.Duration) error {
	pair, err := server.StartRedisPair(scope, behind)
	if err != nil {
		return err
	}
	return f.rival([]string{pair.Primary}, []string{pair.Replica}, pair.FailOver)
}

func (f *Failover) forget(scope *server.Scope) error {
	up, err := server.Start(scope, "three-redis", server.Options{})
	if err != nil {
		return err
	}
	return f.rival(up.Addrs(), up.Addrs(), func() error { return up.(interface{ Forget(int) error }).Forget(0) })
}

// rival lets one take the lock, then the servers fail over, then another ask for it for a moment.
func (f *Failover) rival(before, after []string, failOver func() error) error {
	s, err := drivers.Find(f.System)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	locker := func(addrs []string) (lock.Client, lock.Locker, error) {
		c, err := s.Driver().Dial(ctx, addrs)
		if err != nil {
			return nil, nil, err
		}
		l, err := c.Locker(ctx, lock.What{Kind: lock.Mutex, Names: []string{"failover"}})
		return c, l, err
	}
	holds, first, err := locker(before)
	if err != nil {
		return err
	}
	defer holds.Close()
	if err := first.Lock(ctx); err != nil {
		return err
	}
	if err := failOver(); err != nil {
		return err
	}
	wants, second, err := locker(after)
	if err != nil {
		return err
	}
	defer wants.Close()
	moment, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	switch err := second.Lock(moment); {
	case err == nil:
		f.Double++
	case moment.Err() != nil:
		f.Kept++
	default:
		return err
	}
	return nil
}

// election tries twice: a busy machine may lose a session that nobody killed.
func (e *Env) election() []Failover {
	rows := e.elect()
	if slices.ContainsFunc(rows, func(f Failover) bool { return f.Missing != "" && e.Missing[f.System] == "" }) {
		rows = e.elect()
	}
	return rows
}

// elect kills the leader of three ZooKeeper servers while a lock of each library is held, and waited for.
func (e *Env) elect() (all []Failover) {
	scope := &server.Scope{}
	defer scope.Close()
	up, err := server.Start(scope, "zookeeper", server.Options{Members: 3})
	lasting := *e
	lasting.TTL = 20 * time.Second // a session must not end because an election takes its time
	var queues []*queued
	for _, s := range e.measured(false) {
		if s.Server == "zookeeper" && s.Client {
			q := &queued{Failover: Failover{System: s.Name, Server: "the leader of three servers is killed; the others elect another"}, err: err}
			if err == nil {
				q.err = lasting.queue(scope, s, up.Addrs(), q)
			}
			queues = append(queues, q)
		}
	}
	if err == nil {
		err = failOver(up)
	}
	for _, q := range queues {
		if q.err = cmp.Or(q.err, err); q.err == nil {
			q.err = q.look()
		}
		if q.err != nil {
			q.Missing = q.err.Error()
		}
		all = append(all, q.Failover)
	}
	return all
}

// queued is a holder and a rival who waits, in processes of their own.
type queued struct {
	Failover
	err           error
	first, second *holder
}

func (e *Env) queue(scope *server.Scope, s drivers.System, addrs []string, q *queued) (err error) {
	for _, each := range []struct {
		to   **holder
		says string
	}{{&q.first, "granted"}, {&q.second, "waiting"}} {
		if *each.to, err = e.role("hold", s, addrs, "failover"); err != nil {
			return err
		}
		scope.Cleanup((*each.to).end)
		if _, err := (*each.to).await(patience, each.says); err != nil {
			return err
		}
	}
	return nil
}

func failOver(up server.Server) error {
	ensemble, ok := up.(interface {
		KillLeader() error
		Led() bool
	})
	if !ok {
		return errors.New("it is no ensemble")
	}
	if err := ensemble.KillLeader(); err != nil {
		return err
	}
	for end := time.Now().Add(patience); !ensemble.Led(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("no leader was elected within %v", patience)
		}
	}
	return nil
}

// look counts: a grant now is a second one, since nobody has released the lock.
func (q *queued) look() error {
	q.Trials = 1
	switch _, err := q.second.await(3*time.Second, "granted"); {
	case err == nil:
		q.Double++
	case !errors.Is(err, errLate):
		return err
	}
	q.first.drain()
	if _, err := q.first.await(3*time.Second, "write"); err == nil {
		q.Kept++
	}
	return nil
}
