// Command turns shows the order of grants: ten programs queue for one lock, and each runs alone, in the order of arrival.
// Each grant's fencing token is larger than the one before.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/examples/recipes/locks"
	"github.com/locktree/locktree/recipes"
)

const (
	programs = 10
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// turn is the report of one program at the end of its turn.
type turn struct {
	who   int
	at    int64 // its place in the order of turns, from 1
	token uint64
	err   error
}

// queued hears that its client stands in the queue.
type queued struct{ yes chan struct{} }

func (q queued) Observe(e recipes.Event) {
	if e.Type == recipes.EventQueued { // this event comes once for each call
		close(q.yes)
	}
}

func run(ctx context.Context) error {
	gate, err := dial(ctx, "gate", nil)
	if err != nil {
		return err
	}
	defer gate.Close()
	closed, err := locks.At(gate, locks.Root).Recipes.Turns().Lock(ctx) // so that all ten queue before the first one runs
	if err != nil {
		return err
	}
	turns := make(chan turn, programs)
	var inside, order atomic.Int64
	for who := 1; who <= programs; who++ {
		q := queued{yes: make(chan struct{})}
		go func() { turns <- program(ctx, who, q, &inside, &order) }()
		select {
		case <-q.yes: // start the next program when this one is in the queue
		case t := <-turns:
			return errors.Join(fmt.Errorf("program %d did not have to wait", t.who), t.err)
		}
	}
	if err := closed.Unlock(ctx); err != nil {
		return err
	}
	had := make([]turn, programs)
	for range programs {
		t := <-turns
		if t.err != nil {
			return t.err
		}
		had[t.at-1] = t
	}
	last := closed.Token()
	for i, t := range had {
		fmt.Printf("turn %d: program %d\n", i+1, t.who)
		if t.who != i+1 || t.token <= last {
			return fmt.Errorf("program %d with token %d had turn %d, after token %d", t.who, t.token, i+1, last)
		}
		last = t.token
	}
	return nil
}

func program(ctx context.Context, who int, q queued, inside, order *atomic.Int64) turn {
	t := turn{who: who}
	c, err := dial(ctx, fmt.Sprint("program ", who), q.Observe)
	if err != nil {
		t.err = err
		return t
	}
	defer c.Close()
	l, err := locks.At(c, locks.Root).Recipes.Turns().Lock(ctx)
	if err != nil {
		t.err = err
		return t
	}
	if inside.Add(1) > 1 {
		t.err = fmt.Errorf("program %d is not alone", who)
	}
	t.at = order.Add(1)
	time.Sleep(5 * time.Millisecond)
	inside.Add(-1)
	t.token = l.Token()
	t.err = errors.Join(t.err, l.Unlock(ctx))
	return t
}

// dial connects to ZOOKEEPER_SERVERS, or to the server of `locktree dev`.
func dial(ctx context.Context, id string, observe func(recipes.Event)) (*recipes.Client, error) {
	servers := os.Getenv("ZOOKEEPER_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	return recipes.Dial(ctx, recipes.Config{Servers: strings.Split(servers, ","), ID: id, Observer: observe})
}
