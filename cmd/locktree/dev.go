package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/starter"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/zktest"
)

func devCommand(a *app) *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:        "dev",
		SuggestFor: []string{"server"},
		Short:      "Serve an in-memory ZooKeeper for development",
		Args:       atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := loopback(listen); err != nil {
				return err
			}
			server := zktest.New()
			defer server.Close()
			addr, err := server.Listen(listen)
			if err != nil {
				return view.Failf("Cannot listen on "+listen, "%s. Choose another address with -listen, such as -listen=127.0.0.1:0 for any free port.", strings.TrimPrefix(err.Error(), "zktest: "))
			}
			fmt.Fprintln(a.Stdout, addr)
			a.Message("An in-memory ZooKeeper is serving on " + addr + ".\n" +
				"It is for development only: it forgets everything when it stops. Stop it with Ctrl-C.")
			<-c.Context().Done()
			a.Message("Stopped.")
			return nil
		},
	}
	c.Flags().StringVar(&listen, "listen", starter.DevAddress, "the loopback `ADDRESS` to listen on; port 0 is any free port")
	return c
}

// loopback refuses an address that other machines could reach: the server has no
// protection at all.
func loopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return view.Failf("Bad address", "-listen=%s: %v. Write it as 127.0.0.1:2181.", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return view.Failf("Not a loopback address", "Other machines could reach -listen=%s. dev serves only this machine: use 127.0.0.1, ::1 or localhost.", addr)
	}
	return nil
}
