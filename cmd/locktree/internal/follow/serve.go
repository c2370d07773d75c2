// Package follow looks at ensembles again and again: for the page of "locktree serve", and for "locktree status -watch".
//
// It relies on package page for the loop and for the page itself, and on package stack for connections that cannot write. It
// writes nothing to ZooKeeper, and it ends only when its context ends. A configuration that changes is read again; a configuration
// with errors is not used.
//
//	err := follow.Serve(ctx, screen, loader, follow.Options{Listen: "127.0.0.1:7676", Interval: 2 * time.Second}, cfg)
package follow

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/page"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

// Options say what the page shows, and who may see it.
type Options struct {
	Where                   stack.Where
	Dirs                    []string // the configuration directories of several stacks; if empty, the page shows the configuration that Serve is given
	Reads                   int      // see scan.Options
	Interval, DriftInterval time.Duration
	Listen, WebConfig       string
	Hosts                   []string
	Input                   []byte // of standard input, for a -var-file=-
}

// Serve serves the page until ctx ends. cfg is the configuration to begin with, unless there are Dirs.
func Serve(ctx context.Context, to *screen.Screen, l *stack.Loader, o Options, cfg *config.Config) error {
	door, err := o.door(to, l)
	if err != nil {
		return err
	}
	all, first, err := o.sources(to, l, cfg)
	if err != nil {
		return err
	}
	service := &page.Service{Options: page.Options{Version: l.Version, Interval: o.Interval}, Door: door, Hosts: o.Hosts, DriftInterval: o.DriftInterval, Say: to.Message}
	for _, one := range all {
		service.Read = append(service.Read, one.read)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return view.Failf("Cannot listen on "+o.Listen, "%v. Choose another address with -listen, as in -listen=127.0.0.1:0 for any free port.", err)
	}
	defer listener.Close()
	again := make(chan os.Signal, 1)
	signal.Reset(syscall.SIGHUP) // SIGHUP does not end this command
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	err = service.Run(ctx, listener, first, again, func(address string) {
		fmt.Fprintln(to.Stdout, address)
		to.Message("The page is served at " + address + ". Stop it with Ctrl-C.")
	})
	to.Message("Stopped.")
	return err
}

// door decides who may see the page.
func (o *Options) door(to *screen.Screen, l *stack.Loader) (*page.Door, error) {
	door, err := page.OpenDoor(l.File(o.WebConfig))
	if err != nil {
		return nil, view.Failf("Cannot use the web configuration", "%v.", err)
	}
	host, _, _ := net.SplitHostPort(o.Listen) // if it is malformed, net.Listen says so later
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		if !door.Authenticates() {
			return nil, view.Failf("The page would be open to everybody", "Other machines can reach -listen=%s. "+
				"Serve on %s, behind a proxy if necessary, or name a -web-config with basic_auth_users, or with a tls_server_config that requires client certificates.", o.Listen, Address)
		}
		if !door.Encrypts() {
			to.Message("Warning: passwords for this page cross the network unencrypted. Name a certificate in tls_server_config of the web configuration, unless a proxy in front of it encrypts.")
		}
		if ip == nil && host != "" {
			o.Hosts = append(o.Hosts, host)
		}
	}
	return door, nil
}

// Address is where the page is served if no other address is given.
const Address = "127.0.0.1:7676"

// Health checks whether a page answers, for a container that has no other program for this. Every answer will do, so Health need
// not log in. A server with TLS answers a request without TLS with an error text.
func Health(ctx context.Context, listen string) error {
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	client := http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second} // asks directly, without a proxy from the environment
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return view.Failf("No page answers", "Nothing answers at %s: %v. Check that \"locktree serve\" is running there.", net.JoinHostPort(host, port), err)
	}
	return resp.Body.Close()
}

// Input reads standard input if a -var-file names it, because that is possible only once.
func Input(stdin io.Reader, inputs []config.Input) ([]byte, error) {
	if !slices.ContainsFunc(inputs, func(in config.Input) bool { return in.File == "-" }) {
		return nil, nil
	}
	input, err := io.ReadAll(io.LimitReader(stdin, 32<<20))
	if err != nil {
		return nil, view.Failf("Cannot read standard input", "%v.", err)
	}
	return input, nil
}
