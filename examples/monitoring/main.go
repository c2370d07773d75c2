// Command monitoring uses a mutex, a semaphore and an election until it is interrupted, and serves what they do at
// http://127.0.0.1:2112/metrics. Run it several times, each with its own -listen, to see programs that wait for each other.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	declared "github.com/locktree/locktree/examples/monitoring/locks"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/prom"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:2112", "where to serve /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		err = run(ctx, l)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, l net.Listener) error {
	locks := prom.New()
	reg := prometheus.NewRegistry()
	reg.MustRegister(locks)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer server.Close()
	go func() { _ = server.Serve(l) }()
	fmt.Printf("metrics at http://%s/metrics\n", l.Addr())

	c, err := recipes.Dial(ctx, recipes.Config{Servers: servers(), Observer: locks.Observe})
	if err != nil {
		return err
	}
	defer c.Close()
	failed := make(chan error, 4)
	shop := declared.At(c, declared.Root).Shop
	go func() { failed <- book(ctx, shop.Ledger()) }()
	for range 2 { // one program takes all permits, so a second one has to wait
		go func() { failed <- call(ctx, shop.Api()) }()
	}
	go func() { failed <- mail(ctx, shop.Mailer()) }()
	return <-failed
}

// book holds the ledger for a moment, again and again.
func book(ctx context.Context, ledger *recipes.Mutex) error {
	for {
		err := ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx, 200) })
		if err != nil {
			return err
		}
		if err := work(ctx, 400); err != nil {
			return err
		}
	}
}

// call gives up if no permit is free in time, which the metrics count as a timeout.
func call(ctx context.Context, api *recipes.Semaphore) error {
	for {
		soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		l, err := api.Acquire(soon, 1)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			continue
		case err != nil:
			return err
		}
		err = work(ctx, 500)
		if err := errors.Join(err, l.Unlock(ctx)); err != nil {
			return err
		}
	}
}

// mail leads for some seconds, then lets another program lead.
func mail(ctx context.Context, mailer *recipes.Election) error {
	for {
		err := mailer.Lead(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx, 20_000) })
		if err != nil {
			return err
		}
	}
}

// work takes up to so many milliseconds.
func work(ctx context.Context, most int) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Duration(rand.IntN(most)) * time.Millisecond):
		return nil
	}
}

// servers are ZOOKEEPER_SERVERS, or what `locktree dev` serves.
func servers() []string {
	if s := os.Getenv("ZOOKEEPER_SERVERS"); s != "" {
		return strings.Split(s, ",")
	}
	return []string{"127.0.0.1:2181"}
}
