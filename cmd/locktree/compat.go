package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/conformance"
)

func compatCommand(a *app) *cobra.Command {
	x := examining{under: "/", newRoot: conformance.NewRoot}
	c := &cobra.Command{
		Use:        "compat SERVERS",
		SuggestFor: []string{"compatibility", "conformance"},
		Short:      "Compare servers with what locktree needs of them",
		Long: "compat asks each server, such as zk1:2181,zk2:2181, what locktree relies on, and compares the\n" +
			"answers with those of the in-memory server, which is compared with Apache ZooKeeper 3.8.0. It\n" +
			"prints a report in Markdown that you can post, and exits with 1 if a server differs in what\n" +
			"locktree needs.\n\n" +
			"compat writes: it creates a node of its own, /locktree-compat- and random letters, writes below\n" +
			"it only, and deletes it at the end. It asks before. It reads no configuration, presents no\n" +
			"credential, and uses TLS if ZOOKEEPER_TLS_ENABLED and the variables beside it say so.",
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(c, "Servers missing", "Give the servers, for example zk1:2181,zk2:2181.")
			}
			if err := kind.ValidatePath(x.under); err != nil {
				return usage(c, "Not a path", "-under=%s: %v.", x.under, err)
			}
			return a.compat(c.Context(), args[0], x)
		},
	}
	c.Flags().StringVar(&x.under, "under", x.under, "create the node below this `PATH`, which exists and lets everybody create children")
	c.Flags().StringVar(&x.out, "out", "", "write the report to this `FILE`, too")
	c.Flags().BoolVar(&x.approved, "auto-approve", false, "do not ask for approval")
	return c
}

// examining are the options of compat.
type examining struct {
	under, out string
	approved   bool
	newRoot    func(under string) string
}

// verdicts of a report.
const (
	passed   = "same"
	differed = "**differs**"
	unasked  = "**not asked**"
)

func (a *app) compat(ctx context.Context, servers string, x examining) error {
	cfg, err := a.clientConfig(&config.Ensemble{Servers: strings.Split(servers, ",")})
	if err != nil {
		return err
	}
	root := x.newRoot(x.under)
	if !x.approved {
		question := fmt.Sprintf("Do you want to compare %s?\n  locktree will create %s on it, write below that node only, and delete it at the end.\n"+
			"  Only 'yes' will be accepted to approve.", servers, root)
		if err := a.approve(ctx, "Compat", question, ""); err != nil {
			return err
		}
	}
	defer a.interruptible(ctx)()
	var report strings.Builder
	fine := true
	fmt.Fprintf(&report, "# Compatibility report\n\nlocktree %s, %s.\n", version(), time.Now().UTC().Format(time.DateOnly))
	for _, server := range cfg.Servers {
		found, err := conformance.Examine(ctx, dialer(ctx, cfg, withPort(server)), root)
		if err != nil {
			return view.Failf("Cannot compare "+server, "%v.", err)
		}
		fine = reportOn(&report, server, found) && fine
	}
	fmt.Fprint(a.stdout, report.String())
	if x.out != "" {
		if err := os.WriteFile(a.path(x.out), []byte(report.String()), 0o644); err != nil { //nolint:gosec // it is to be posted
			return view.Failf("Cannot write the report", "%v.", err)
		}
	}
	if !fine {
		return exitWith(exitError)
	}
	return nil
}

// withPort is the address of a server.
func withPort(server string) string {
	if _, _, err := net.SplitHostPort(server); err != nil {
		return net.JoinHostPort(strings.Trim(server, "[]"), "2181")
	}
	return server
}

// dialer connects to one server, encrypted if cfg says so.
func dialer(ctx context.Context, cfg recipes.Config, addr string) conformance.Dial {
	return func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // what was begun is also removed after an interrupt
		defer cancel()
		if cfg.GetTLS == nil {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
		secure, err := cfg.GetTLS()
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", addr)
	}
}

// reportOn writes about one server, and reports whether it does all that locktree needs.
func reportOn(w io.Writer, server string, x *conformance.Examination) (fine bool) {
	fine = true
	fmt.Fprintf(w, "\n## %s\n\n- %s, by its handshake\n", server, x.Kind)
	if x.Version == "" {
		fmt.Fprintf(w, "- it does not answer srvr, so its version is not known: it is compared with 3.8.0, and from 3.9 on events differ\n")
	} else {
		fmt.Fprintf(w, "- `%s`\n", strings.ReplaceAll(kind.Visible(x.Version), "`", "'"))
	}
	fmt.Fprintf(w, "\n| check | what rests on it | answers | result |\n|---|---|---|---|\n")
	for _, r := range x.Results {
		result, needs := passed, r.Needs
		switch {
		case r.Err != nil:
			result = unasked
		case r.Difference != "":
			result = differed
		}
		if needs == "" {
			needs = "nothing"
		} else {
			fine = fine && !r.Differs()
		}
		fmt.Fprintf(w, "| %s | %s | %d | %s |\n", r.Name, needs, r.Compared, result)
	}
	for _, r := range x.Results {
		if r.Differs() {
			why := r.Difference
			if r.Err != nil {
				why = r.Err.Error()
			}
			fmt.Fprintf(w, "\n### %s\n\n```\n", r.Name)
			for line := range strings.SplitSeq(strings.ReplaceAll(why, "```", "'''"), "\n") {
				fmt.Fprintln(w, kind.Visible(line))
			}
			fmt.Fprintln(w, "```")
		}
	}
	return fine
}
