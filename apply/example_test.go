package apply_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// provision makes the first ensemble of the configuration in dir what is declared for it, and returns the plan that
// did it.
func provision(ctx context.Context, dir string, inputs ...config.Input) (*plan.Plan, error) {
	cfg, diags := config.Load(dir, config.Options{Inputs: inputs, Environ: os.Environ()})
	if diags.HasErrors() {
		return nil, diags
	}
	e := cfg.Ensembles[0]
	client, err := e.Dial(ctx, recipes.Config{}) // with its identities and its encryption
	if err != nil {
		return nil, err
	}
	defer client.Close()
	run, err := apply.Begin(ctx, client, e.Tree, apply.Options{LockTimeout: time.Minute, Author: history.Author{Who: "a program"}})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	p := run.Plan(plan.Options{})
	_, err = run.Apply(ctx, p) // a plan with errors is refused
	return p, err
}

// settings are the part of the configurations below that stays.
const settings = `
locktree { stack = "shop" }
variable "servers" {}
variable "password" { sensitive = true }
ensemble "main" {
  servers         = [var.servers]
  root            = "/locks"
  admins          = [principal.provisioner]
  session_timeout = "40s"
  connect_timeout = "60s"
  auth "digest" {
    username = "provisioner"
    password = var.password
  }
}
principal "provisioner" {
  scheme = "digest"
  id     = digest("provisioner", var.password)
}
`

// server is a ZooKeeper in memory.
func server() (*zktest.Server, []config.Input) {
	srv := zktest.New()
	return srv, []config.Input{{Var: "servers=" + srv.Addr()}, {Var: "password=correct horse"}}
}

// another program makes a lock of its own.
func another(srv *zktest.Server) {
	if err := srv.Create("/locks/catalog", nil); err != nil {
		log.Fatal(err)
	}
}

// write puts a configuration into dir.
func write(dir, blocks string) {
	if err := os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte(settings+blocks), 0o600); err != nil {
		log.Fatal(err)
	}
}

const first = `
namespace "payments" {
  mutex "books" {}
}
mutex "legacy" {}
`

const second = `
namespace "payments" {
  mutex "ledger" {
    name = "books"
  }
}
rwlock "catalog" {}
moved {
  from = namespace.payments.mutex.books
  to   = namespace.payments.mutex.ledger
}
import {
  to   = rwlock.catalog
  path = "/locks/catalog"
}
removed {
  from = mutex.legacy
  lifecycle { destroy = false }
}
output "ledger" { value = namespace.payments.mutex.ledger.path }
`

// Provision locks, and then with a changed configuration: one lock has got another name, one is taken over from another
// program, one is let go. Function provision, above, is all that it takes.
func Example() {
	srv, inputs := server()
	defer srv.Close()
	dir, err := os.MkdirTemp("", "locktree-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	for _, blocks := range []string{first, second} {
		write(dir, blocks)
		p, err := provision(context.Background(), dir, inputs...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(p)
		if blocks == first {
			another(srv)
		}
	}

	// Output:
	// + mutex.legacy
	// + namespace.payments
	// + namespace.payments.mutex.books
	// -/+ rwlock.catalog acl=world:anyone:cdrwa -> digest:provisioner:cdrwa
	// . mutex.legacy
}

// A new address was destroy and create: what a configuration intends was in two places, and only the command put them together.
func TestProgramThatFollowsThePackageDocumentationKeepsARenamedLock(t *testing.T) {
	srv, inputs := server()
	defer srv.Close()
	dir := t.TempDir()
	write(dir, first)
	_, err := provision(t.Context(), dir, inputs...)
	require.NoError(t, err)
	another(srv)
	made, _ := srv.Get("/locks/payments/books")
	write(dir, second)
	_, err = provision(t.Context(), dir, inputs...)
	require.NoError(t, err)

	payload := func(path string) *kind.Payload {
		node, ok := srv.Get(path)
		require.True(t, ok, "%s is gone", path)
		decoded, err := kind.Decode(node.Data)
		require.NoError(t, err)
		return decoded
	}
	books := payload("/locks/payments/books")
	require.Equal(t, "namespace.payments.mutex.ledger", books.Owner.Addr, "the declaration has another address")
	require.Equal(t, int64(2), books.Gen, "the same declaration goes on")
	node, _ := srv.Get("/locks/payments/books")
	require.Equal(t, made.Stat.Czxid, node.Stat.Czxid, "the lock is the same node")
}
