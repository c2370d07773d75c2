// Command quickstart holds the mutex that locks.locktree.hcl declares while it does its work, and says which fencing token it got.
package main

import (
	"context"
	"log"
	"os"
	"strings"
)

//go:generate go run github.com/locktree/locktree/cmd/locktree generate go -out=locks/locks.go

func main() {
	servers := os.Getenv("ZOOKEEPER_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	if err := run(context.Background(), strings.Split(servers, ",")); err != nil {
		log.Fatal(err)
	}
}
