package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/redpacket/locks"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// The money is in nodes beside the lock that locks.locktree.hcl declares.
const (
	gamePath = "/redpacket-game"
	potPath  = gamePath + "/pot"
	paidPath = gamePath + "/paid"
)

// Game is one pot and the workers who empty it.
type Game struct {
	Pot      int64 // cents
	Workers  int
	Clients  int  // ZooKeeper sessions the workers share
	Unlocked bool // work without the lock, to see its purpose
	Seed     uint64
	Dial     func(ctx context.Context) (*recipes.Client, error)
}

// Result is what happened.
type Result struct {
	Paid     int64 // the sum over all workers, as ZooKeeper has it
	Left     int64 // still in the pot
	Payments int64 // committed, as far as the workers know
	Retries  int64 // attempts that ended in a lost lock, session or reply
}

// Play lays out the pot, lets every worker draw until it is empty, and counts. The arithmetic has no other
// protection: no version is checked and no value is compared. Only the lock keeps it right.
func (g Game) Play(ctx context.Context) (Result, error) {
	clients := make([]*recipes.Client, g.Clients)
	for i := range clients {
		c, err := g.Dial(ctx)
		if err != nil {
			return Result{}, err
		}
		defer c.Close()
		clients[i] = c
	}
	if err := g.layOut(ctx, clients[0]); err != nil {
		return Result{}, err
	}
	var res Result
	var wg sync.WaitGroup
	errs := make([]error, g.Workers)
	for i := range g.Workers {
		w := worker{
			game: g, id: i, client: clients[i%len(clients)],
			rng: rand.New(rand.NewPCG(g.Seed, uint64(i))), res: &res,
		}
		wg.Go(func() { errs[i] = w.run(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return res, err
	}
	for {
		err := g.count(ctx, clients[0], &res)
		// The session may die here, too. The numbers stay: the next session reads them again.
		if !errors.Is(err, recipes.ErrSessionLost) || ctx.Err() != nil {
			return res, err
		}
	}
}

func (g Game) layOut(ctx context.Context, c *recipes.Client) error {
	s, err := c.Session(ctx)
	if err != nil {
		return err
	}
	nodes := []struct{ path, data string }{{gamePath, ""}, {potPath, strconv.FormatInt(g.Pot, 10)}, {paidPath, ""}}
	for i := range g.Workers {
		nodes = append(nodes, struct{ path, data string }{walletPath(i), "0"})
	}
	var ops []any
	for _, n := range nodes {
		ops = append(ops, &zk.CreateRequest{Path: n.path, Data: []byte(n.data), Acl: zk.WorldACL(zk.PermAll)})
	}
	if _, err := s.Multi(ctx, ops...); err != nil {
		return fmt.Errorf("lay out the pot below %s: %w (a pot of an earlier run? delete that node first)", gamePath, err)
	}
	return nil
}

func (g Game) count(ctx context.Context, c *recipes.Client, res *Result) error {
	s, err := c.Session(ctx)
	if err != nil {
		return err
	}
	if res.Left, _, err = readCents(ctx, s, potPath); err != nil {
		return err
	}
	var paid int64
	for i := range g.Workers {
		cents, _, err := readCents(ctx, s, walletPath(i))
		if err != nil {
			return err
		}
		paid += cents
	}
	res.Paid = paid
	return nil
}

func walletPath(worker int) string { return fmt.Sprintf("%s/worker-%03d", paidPath, worker) }

func readCents(ctx context.Context, s *direct.Session, path string) (int64, *zk.Stat, error) {
	data, stat, err := s.Get(ctx, path)
	if err != nil {
		return 0, nil, err
	}
	cents, err := strconv.ParseInt(string(data), 10, 64)
	return cents, stat, err
}

type worker struct {
	game   Game
	id     int
	client *recipes.Client
	rng    *rand.Rand
	res    *Result
}

// run draws until the pot is empty. A lost lock, session or reply ends only an attempt, not the worker. The payments
// are in ZooKeeper, so the next attempt starts from them.
func (w worker) run(ctx context.Context) error {
	for {
		empty, err := w.attempt(ctx)
		switch {
		case empty:
			return nil
		case err == nil:
			atomic.AddInt64(&w.res.Payments, 1)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, recipes.ErrNotProvisioned), errors.Is(err, recipes.ErrKindMismatch):
			return err
		default:
			atomic.AddInt64(&w.res.Retries, 1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(1+w.rng.IntN(20)) * time.Millisecond):
			}
		}
	}
}

func (w worker) attempt(ctx context.Context) (empty bool, err error) {
	if w.game.Unlocked {
		return w.draw(ctx, nil)
	}
	err = locks.At(w.client, locks.Root).Redpacket.Lock().Do(ctx, func(ctx context.Context, lease *recipes.Lease) (err error) {
		empty, err = w.draw(ctx, lease)
		return err
	})
	return empty, err
}

// draw moves a random amount from the pot to the worker's wallet: two reads, then both new values in one transaction. Between the
// reads and the write another worker could do the same, unless there is a lock.
//
// With the lock, the transaction belongs to the lease, so it fails once the lock is gone. A worker that was stopped between its
// reads and its write changes nothing when it wakes up.
func (w worker) draw(ctx context.Context, lease *recipes.Lease) (empty bool, err error) {
	s, err := w.client.Session(ctx)
	if err != nil {
		return false, err
	}
	left, _, err := readCents(ctx, s, potPath)
	if err != nil || left <= 0 {
		return err == nil, err
	}
	wallet, _, err := readCents(ctx, s, walletPath(w.id))
	if err != nil {
		return false, err
	}
	amount := min(left, 1+w.rng.Int64N(max(1, w.game.Pot/100)))
	ops := []any{set(potPath, left-amount), set(walletPath(w.id), wallet+amount)}
	if lease != nil {
		_, err = lease.Multi(ctx, ops...)
	} else {
		_, err = s.Multi(ctx, ops...)
	}
	return false, err
}

// set overwrites any value: version -1 checks nothing.
func set(path string, cents int64) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: path, Data: []byte(strconv.FormatInt(cents, 10)), Version: -1}
}
