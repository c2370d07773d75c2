package apply_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// provision applies the configuration in dir to its first ensemble: it reads what exists, plans, and applies the plan. It writes the plan
// and the result to out.
func provision(ctx context.Context, out io.Writer, dir string, inputs ...config.Input) error {
	cfg, diags := config.Load(dir, config.Options{Inputs: inputs, Environ: os.Environ()})
	if diags.HasErrors() {
		return diags
	}
	e := cfg.Ensembles[0]
	client, err := e.Dial(ctx, recipes.Config{}) // with the identities and the encryption of the ensemble
	if err != nil {
		return err
	}
	defer client.Close()
	run, err := apply.Begin(ctx, client, e.Tree, apply.Options{LockTimeout: time.Minute, Author: history.Author{Who: "a program"}})
	if err != nil {
		return err
	}
	defer run.Close()
	p := run.Plan(plan.Options{})
	fmt.Fprint(out, p)
	done, err := run.Apply(ctx, p) // a plan with errors is refused
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d added, %d changed, %d destroyed, %d forgotten: %d transaction\n",
		done.Counts.Add, done.Counts.Change, done.Counts.Destroy, done.Counts.Forget, done.Transactions)
	return nil
}

// settings are the part that the configurations below share.
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

// server starts a ZooKeeper in memory.
func server() (*zktest.Server, []config.Input) {
	srv := zktest.New()
	return srv, []config.Input{{Var: "servers=" + srv.Addr()}, {Var: "password=correct horse"}}
}

// another has another program create a lock.
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

// This example provisions locks, and then changes the configuration: one lock is renamed, one is imported from another program, and one is
// forgotten. Function provision, above, does all of it.
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
		if err := provision(context.Background(), os.Stdout, dir, inputs...); err != nil {
			log.Fatal(err)
		}
		if blocks == first {
			another(srv)
		}
	}

	// Output:
	// + mutex.legacy
	// + namespace.payments
	// + namespace.payments.mutex.books
	// 3 added, 0 changed, 0 destroyed, 0 forgotten: 1 transaction
	// -/+ rwlock.catalog acl=world:anyone:cdrwa -> digest:provisioner:cdrwa
	// . mutex.legacy
	// 1 added, 0 changed, 1 destroyed, 1 forgotten: 1 transaction
}
