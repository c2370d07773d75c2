package prom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/prom"
)

func Example() {
	locks := prom.New()
	prometheus.MustRegister(locks)
	go func() { log.Print(http.ListenAndServe("127.0.0.1:9090", promhttp.Handler())) }()

	c, err := recipes.Dial(context.Background(), recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}, Observer: locks.Observe})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.Mutex("/locks/ledger").Do(context.Background(), func(context.Context, *recipes.Lease) error {
		return nil // locktree_held{lock="/locks/ledger",kind="mutex"} is 1 here
	})
	if err != nil {
		log.Print(err)
	}
}

// The locks of all customers have one label.
func ExampleWithLabel() {
	label := func(path string) string {
		if strings.HasPrefix(path, "/locks/customers/") {
			return "/locks/customers/*"
		}
		return path
	}
	prometheus.MustRegister(prom.New(prom.WithLabel(label)))
	fmt.Println(label("/locks/customers/4711"))
	// Output: /locks/customers/*
}
