package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// doctor ended with the first ensemble that refused the authentication, and said nothing of the others.
func TestDoctorLooksAtTheOtherEnsemblesWhereOneRefusesTheAuthentication(t *testing.T) {
	srv, dir := zktest.Start(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte(`
locktree { stack = "shop" }
ensemble "closed" {
  servers = ["closed:1"]
  root    = "/a"
}
ensemble "main" {
  servers = ["`+srv.Addr()+`"]
  root    = "/b"
}
`), 0o600))
	for _, format := range []string{"text", "-json"} {
		var out, errs strings.Builder
		a := &app{Screen: &screen.Screen{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}, dialClient: func(ctx context.Context, cfg recipes.Config) (*recipes.Client, error) {
			if cfg.Servers[0] == "closed:1" {
				return nil, fmt.Errorf("%w: the servers want SASL", recipes.ErrAuth)
			}
			return recipes.Dial(ctx, cfg)
		}}
		args := []string{"-chdir=" + dir, "doctor"}
		if format != "text" {
			args = append(args, format)
		}
		require.Equal(t, exit.Failed, a.run(t.Context(), args))
		require.Contains(t, errs.String(), `Nothing is known of ensemble "closed"`)
		require.Contains(t, errs.String(), "the servers want SASL")
		if format == "text" {
			require.Contains(t, out.String(), "main  /b, 0 locks checked")
			require.NotContains(t, out.String(), "closed  /a")
			continue
		}
		require.Contains(t, out.String(), `"error": "ZooKeeper refused the authentication`)
	}
}

// An interrupt behind the last request about an ensemble ended doctor with 0 and without a word, whatever was left to look at.
func TestAnInterruptedDoctorDoesNotSucceed(t *testing.T) {
	srv, dir := zktest.Start(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte(`
locktree { stack = "shop" }
ensemble "main" { servers = ["`+srv.Addr()+`"] }
`), 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	var errs strings.Builder
	var first sync.Once
	dials := 0
	a := &app{Screen: &screen.Screen{Stdin: strings.NewReader(""), Stdout: &strings.Builder{}, Stderr: &errs}, dialClient: func(ctx context.Context, cfg recipes.Config) (*recipes.Client, error) {
		if dials++; dials == 2 { // the first one is for the server's own conditions
			cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				first.Do(func() { c = closing{c, interrupt} }) // the session's; the others are for four-letter words
				return c, err
			}
		}
		return recipes.Dial(ctx, cfg)
	}}
	require.Equal(t, exit.Failed, a.run(ctx, []string{"-chdir=" + dir, "doctor"}), &errs)
	require.Equal(t, 2, dials)
	require.Contains(t, errs.String(), "Interrupted")
}

// closing is a connection that tells when it is closed.
type closing struct {
	net.Conn
	then func()
}

func (c closing) Close() error {
	c.then()
	return c.Conn.Close()
}
