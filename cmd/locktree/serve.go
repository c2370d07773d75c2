package main

import (
	"bytes"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/follow"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/config"
)

func serveCommand(a *app) *cobra.Command {
	var o follow.Options
	var tree treeFlags
	var healthcheck bool
	c := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"web", "ui", "page", "dashboard", "exporter", "metrics"},
		Short:      "Serve a page that shows who holds and who waits",
		Args:       atMost(0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if _, _, err := net.SplitHostPort(o.Listen); err != nil {
				return usage(c, "Bad address", "-listen=%s: %v. Write it as %s.", o.Listen, err, follow.Address)
			}
			if healthcheck {
				return follow.Health(c.Context(), o.Listen)
			}
			if err := checkServe(c, &o, &tree); err != nil {
				return err
			}
			if o.Input, err = follow.Input(a.Stdin, tree.inputs); err != nil {
				return err
			}
			a.Stdin = bytes.NewReader(o.Input)
			var cfg *config.Config
			if len(o.Dirs) == 0 {
				if cfg, err = tree.configured(c, a.loader(), ""); err != nil {
					return err
				}
			}
			o.Where = stack.Where{Inputs: tree.inputs, Servers: tree.servers, Prefix: tree.prefix}
			a.unlimitMemory()
			return follow.Serve(c.Context(), a.Screen, a.loader(), o, cfg)
		},
	}
	tree.register(c)
	f := c.Flags()
	f.StringArrayVar(&o.Dirs, "config", nil, "show the stack in this `DIRECTORY`; may be repeated")
	f.StringVar(&o.Listen, "listen", follow.Address, "the `ADDRESS` to serve on; port 0 is any free one")
	f.StringVar(&o.WebConfig, "web-config", "", "a web configuration `FILE` in Prometheus' format: users and certificates")
	f.StringArrayVar(&o.Hosts, "host", nil, "accept this host `NAME` besides localhost and addresses; may be repeated")
	f.DurationVar(&o.Interval, "interval", 2*time.Second, "look again after this `DURATION`")
	f.IntVar(&o.Reads, "reads", follow.Reads, "after this many requests, a look reads no further node, except declared locks that were never read; 0 means no limit")
	f.DurationVar(&o.DriftInterval, "drift-interval", 5*time.Minute, "compare, and run doctor's checks, after this `DURATION`; 0 means never")
	f.BoolVar(&healthcheck, "healthcheck", false, "serve nothing; exit with 0 if the page at -listen answers, otherwise with 1")
	return c
}

func checkServe(c *cobra.Command, o *follow.Options, tree *treeFlags) error {
	if o.Interval < 100*time.Millisecond || o.DriftInterval != 0 && o.DriftInterval < time.Second || o.Reads < 0 {
		return usage(c, "Bad flag", "-interval must be at least 100ms, -reads not negative, and -drift-interval 0 or at least 1s.")
	}
	for _, name := range o.Hosts {
		if strings.ContainsAny(name, ":/") {
			return usage(c, "Bad host", "-host=%s: name it without a scheme, a port and a path, as in -host=locks.example.com.", name)
		}
	}
	if len(o.Dirs) > 0 && (tree.servers != "" || len(tree.inputs) > 0) {
		return usage(c, "Bad flag", "-config is not for use with -servers, -var and -var-file. Write values into a file such as values.auto.ltvars beside each configuration.")
	}
	return tree.checkPrefix(c)
}
