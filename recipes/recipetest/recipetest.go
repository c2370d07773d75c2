// Package recipetest helps to test code that uses locks. [Start] makes an in-memory ZooKeeper with declared locks.
// [Cluster.Client] makes clients, which [Cluster.Cut] cuts off and whose sessions [Cluster.Expire] ends. [Lease] makes a lease
// for code that takes one as an argument.
//
//	func TestTheLedgerIsLeftWhenTheLockIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) { // fake time, if wanted: timeouts take no time
//			c := recipetest.Start(t, recipetest.Lock("/locks/ledger", &kind.MutexParams{}))
//			client := c.Client("worker-1")
//			...
//			c.Expire(client)
//		})
//	}
//
// Nothing is faked: the library was granted each lease, so tokens grow, Multi writes, and a lost lease ends. Everything is closed with the
// test. Each call fails the test at once if it cannot do its work.
//
// # Which locks
//
// Start takes functions that declare them. [Lock] declares one. Code that "locktree generate go" writes has a function for the whole
// stack, and package config reads it from the configuration:
//
//	recipetest.Start(t, func(s *zktest.Server) error { return locks.Provision(s, locks.Root) })
//
//	cfg, diags := config.Load("../deploy", config.Options{})
//	recipetest.Start(t, recipetest.Nodes(cfg.Ensembles[0].Tree.Payloads()))
//
// The locks are declared as an apply would declare them, except that access lists let everybody in.
package recipetest

import (
	"context"
	"iter"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// TB has the methods of a test that this package needs: *testing.T, *testing.B, *testing.F and rapid's T have them.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Cluster is an in-memory ZooKeeper of one test.
type Cluster struct {
	// Server does what has no method here: it counts requests, injects faults, and shows and edits nodes.
	Server *zktest.Server

	tb TB
}

// Start starts a server for the test and declares locks on it. In a testing/synctest bubble the server lives in the bubble's
// time.
func Start(tb TB, declare ...func(*zktest.Server) error) *Cluster {
	tb.Helper()
	c := &Cluster{Server: zktest.Start(tb), tb: tb}
	for _, d := range declare {
		if err := d(c.Server); err != nil {
			tb.Fatalf("recipetest: %v", err)
		}
	}
	return c
}

// Lock declares one lock, for [Start].
func Lock(path string, params kind.Params) func(*zktest.Server) error {
	return func(s *zktest.Server) error { return s.Provision(path, &kind.Payload{Params: params}) }
}

// Nodes declares all nodes of a sequence of paths and payloads, for [Start].
func Nodes(all iter.Seq2[string, *kind.Payload]) func(*zktest.Server) error {
	return func(s *zktest.Server) error {
		for path, payload := range all {
			if err := s.Provision(path, payload); err != nil {
				return err
			}
		}
		return nil
	}
}

// Client connects a client that the test closes. The parameter id names the client as a holder or waiter. The session timeout is
// 40 s, and the connect timeout a minute, so that a machine which stops for a while ends no session and no attempt. The functions
// change may set other timeouts, or add an Observer.
func (c *Cluster) Client(id string, change ...func(*recipes.Config)) *recipes.Client {
	c.tb.Helper()
	cfg := recipes.Config{Servers: []string{"recipetest"}, Dialer: c.Server.DialContext, ID: id,
		SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute}
	for _, f := range change {
		f(&cfg)
	}
	client, err := recipes.Dial(context.Background(), cfg)
	if err != nil {
		c.tb.Fatalf("recipetest: client %s: %v", id, err)
	}
	c.tb.Cleanup(func() { _ = client.Close() }) // the server ends too, so an error does not matter
	return client
}

// session is the id of the client's live session.
func (c *Cluster) session(client *recipes.Client) int64 {
	c.tb.Helper()
	s, err := client.Session(context.Background())
	if err != nil {
		c.tb.Fatalf("recipetest: %v", err)
	}
	return s.ID()
}

// Expire ends the client's session, as the servers do when they have not heard from it for its timeout. Others may have its locks
// at once. The client learns of the end when it hears from the server again, which is soon: wait for the lease's Context. It goes
// on with a new session.
func (c *Cluster) Expire(client *recipes.Client) {
	c.tb.Helper()
	c.Server.Expire(c.session(client))
}

// Cut holds back everything between the client and the server, in both directions, until heal is called. The client sees
// silence, and then a lost connection. After half its session timeout its leases end, and after the whole timeout the server
// expires the session.
func (c *Cluster) Cut(client *recipes.Client) (heal func()) {
	c.tb.Helper()
	id := c.session(client)
	c.Server.Partition(id, zktest.Both)
	return func() { c.Server.Heal(id) }
}

// Lease makes a lease of a mutex at path, on a server of its own, for code that takes a lease as an argument. The function lose
// ends the lease's session, and returns when the lease's Context has ended with [recipes.ErrLost].
func Lease(tb TB, path string) (l *recipes.Lease, lose func()) {
	tb.Helper()
	c := Start(tb, Lock(path, &kind.MutexParams{}))
	client := c.Client("recipetest")
	l, err := client.Mutex(path).Lock(context.Background())
	if err != nil {
		tb.Fatalf("recipetest: %v", err)
	}
	return l, func() {
		tb.Helper()
		c.Expire(client)
		<-l.Context().Done()
	}
}
