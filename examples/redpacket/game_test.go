package main

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/redpacket/locks"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// inFakeTime plays a game on the in-memory server with a millisecond of latency
// in each direction. die, when given, runs beside it until the game is over.
func inFakeTime(t *testing.T, g Game, die func(ctx context.Context, srv *zktest.Server)) Result {
	var res Result
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithTickTime(time.Second), zktest.WithLatency(time.Millisecond))
		require.NoError(t, locks.Provision(srv, locks.Root))
		g.Dial = func(ctx context.Context) (*recipes.Client, error) {
			return recipes.Dial(ctx, recipes.Config{
				Servers: []string{"zk:2181"}, SessionTimeout: 6 * time.Second, Dialer: srv.DialContext,
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		over := make(chan struct{})
		if die != nil {
			go func() { defer close(over); die(ctx, srv) }()
		} else {
			close(over)
		}
		var err error
		res, err = g.Play(ctx)
		cancel()
		<-over
		require.NoError(t, err)
	})
	return res
}

// Replies are lost, connections are cut and sessions expire while 100 workers draw. A retry finds in ZooKeeper what was paid.
func TestThePotIsPaidExactlyWhateverDies(t *testing.T) {
	for seed := range uint64(5) {
		var cuts, expiries int
		res := inFakeTime(t, Game{Pot: 100_000_000, Workers: 100, Clients: 5, Seed: seed}, func(ctx context.Context, srv *zktest.Server) {
			rng := rand.New(rand.NewPCG(seed, 99))
			lost := srv.Inject(func(r zktest.Request) bool { return r.Op == "multi" && r.N%17 == 0 }, zktest.DropReply)
			defer lost.Remove()
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(10+rng.IntN(400)) * time.Millisecond):
				}
				sessions := srv.Sessions()
				if len(sessions) == 0 {
					continue
				}
				victim := sessions[rng.IntN(len(sessions))].ID
				if rng.IntN(4) == 0 {
					srv.Expire(victim)
					expiries++
				} else {
					srv.Disconnect(victim)
					cuts++
				}
			}
		})
		require.EqualValues(t, 100_000_000, res.Paid, "seed %d", seed)
		require.Zero(t, res.Left)
		require.Positive(t, cuts)
		require.Positive(t, expiries)
		require.Positive(t, res.Retries, "the faults must have hit somebody")
		t.Logf("seed %d: %d payments, %d retries, %d cuts, %d expiries", seed, res.Payments, res.Retries, cuts, expiries)
	}
}

// The test above would prove nothing if the game were safe without its lock.
func TestWithoutTheLockItOverpays(t *testing.T) {
	res := inFakeTime(t, Game{Pot: 100_000_000, Workers: 100, Clients: 5, Seed: 1, Unlocked: true}, nil)
	require.Greater(t, res.Paid, int64(100_000_000))
}
