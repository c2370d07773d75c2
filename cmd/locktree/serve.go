package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/page"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// serveAddress is where the page is served unless something else is asked for.
const serveAddress = "127.0.0.1:7676"

func serveCommand(a *app) *cobra.Command {
	s := &service{app: a}
	c := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"web", "ui", "page", "dashboard", "exporter", "metrics"},
		Short:      "Serve a page that shows who holds and who waits",
		Long: "serve shows the locks of the stack on a web page, until it is interrupted: problems first, each\n" +
			"lock with its queue, who waits for whom, drift, and what doctor finds. With -prefix\n" +
			"it shows every lock below a path, whoever made it; with -servers, or ZOOKEEPER_SERVERS and\n" +
			"-prefix, it reads no configuration. /metrics is for Prometheus, /api/v1/status is what the page\n" +
			"shows, as \"locktree status -json -prefix\" prints it, and /healthz and /readyz are for health\n" +
			"checks.\n\n" +
			"The configuration, with its certificates and files of variables, is read again when a file changes,\n" +
			"before each comparison, and on SIGHUP. The page says which one it compares with. One that has\n" +
			"errors is not used: the page, /metrics and standard error say so.\n\n" +
			"-config names the directory of a stack, instead of -chdir, and may be repeated: one page shows them\n" +
			"all, each ensemble as STACK/ENSEMBLE, and what cannot be read or reached hides nothing else.\n" +
			"Values of variables then come from the environment and from *.auto.ltvars in each directory.\n\n" +
			"It changes nothing: its connection to ZooKeeper refuses writes. If the servers allow the\n" +
			"four-letter words dump and cons, a look is cheap and also shows where holders connect from.\n\n" +
			"It serves only this machine, unless -web-config names a file in the format of Prometheus' web\n" +
			"configuration, with basic_auth_users, or a tls_server_config that requires client certificates.\n" +
			"That file is read for each request: other users and certificates are in force at once.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if s.healthcheck {
				return s.askHealth(c)
			}
			if err := errors.Join(s.check(c), s.keepInput()); err != nil {
				return err
			}
			stacks, err := s.stacks(c)
			if err != nil {
				return err
			}
			s.lasting()
			return s.run(c.Context(), stacks)
		},
	}
	s.register(c)
	f := c.Flags()
	f.StringArrayVar(&s.configs, "config", nil, "show the stack whose configuration is in this `DIRECTORY`; may be repeated")
	f.StringVar(&s.listen, "listen", serveAddress, "the `ADDRESS` to serve on; port 0 is any free one")
	f.StringVar(&s.webConfig, "web-config", "", "a web configuration `FILE` in Prometheus' format: who may look, and the certificate")
	f.StringArrayVar(&s.hosts, "host", nil, "accept this host `NAME` in requests, besides localhost and addresses; may be repeated")
	f.DurationVar(&s.interval, "interval", 2*time.Second, "look again after this `DURATION`")
	f.IntVar(&s.reads, "reads", readsPerLook, "the most requests per look, except for the first; 0 means no limit")
	f.DurationVar(&s.driftInterval, "drift-interval", 5*time.Minute, "compare with the configuration, and run doctor's checks, after this `DURATION`; 0 means never")
	f.BoolVar(&s.healthcheck, "healthcheck", false, "serve nothing; exit with 0 if the page at -listen answers, otherwise with 1")
	return c
}

// service is one run of serve.
type service struct {
	*app
	treeFlags
	configs                 []string // directories; none: that of -chdir
	listen, webConfig       string
	hosts                   []string
	interval, driftInterval time.Duration
	reads                   int
	healthcheck             bool

	input []byte // what standard input had, for a -var-file=-
	door  *page.Door
}

func (s *service) check(c *cobra.Command) error {
	if s.interval < 100*time.Millisecond || s.driftInterval != 0 && s.driftInterval < time.Second || s.reads < 0 {
		return usage(c, "Bad flag", "-interval must be at least 100ms, -reads not negative, and -drift-interval 0 or at least 1s.")
	}
	for _, name := range s.hosts {
		if strings.ContainsAny(name, ":/") {
			return usage(c, "Bad host", "-host=%s: name it without a scheme, a port and a path, as in -host=locks.example.com.", name)
		}
	}
	host, _, err := s.hostPort(c)
	if err != nil {
		return err
	}
	if s.door, err = page.OpenDoor(s.loader().File(s.webConfig)); err != nil {
		return view.Failf("Cannot use the web configuration", "%v.", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		if !s.door.Authenticates() {
			return view.Failf("The page would be open to everybody", "Other machines can reach -listen=%s. "+
				"Serve on %s, behind a proxy if necessary, or name a -web-config with basic_auth_users, or with a tls_server_config that requires client certificates.", s.listen, serveAddress)
		}
		if !s.door.Encrypts() {
			s.Message("Warning: passwords for this page cross the network unencrypted. Name a certificate in tls_server_config of the web configuration, unless a proxy in front of it encrypts.")
		}
		if ip == nil && host != "" {
			s.hosts = append(s.hosts, host)
		}
	}
	return nil
}

func (s *service) hostPort(c *cobra.Command) (host, port string, err error) {
	if host, port, err = net.SplitHostPort(s.listen); err != nil {
		err = usage(c, "Bad address", "-listen=%s: %v. Write it as %s.", s.listen, err, serveAddress)
	}
	return host, port, err
}

// askHealth is for a container, in which there is nothing else that could ask. Whatever is answered will do: who may log in, and
// with which certificate, is not asked for here, and a server that encrypts says so in plain text.
func (s *service) askHealth(c *cobra.Command) error {
	host, port, err := s.hostPort(c)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	client := http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second} // and no proxy of the environment
	r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return view.Failf("No page answers", "Nothing answers at %s: %v. Check that \"locktree serve\" is running there.", net.JoinHostPort(host, port), err)
	}
	return resp.Body.Close()
}

// run serves until it is told to end.
func (s *service) run(ctx context.Context, stacks []pageOf) error {
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return view.Failf("Cannot listen on "+s.listen, "%v. Choose another address with -listen, as in -listen=127.0.0.1:0 for any free port.", err)
	}
	defer l.Close()
	again := make(chan os.Signal, 1)
	signal.Reset(syscall.SIGHUP) // it does not end this command
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	service := &page.Service{Options: page.Options{Version: version(), Interval: s.interval},
		Door: s.door, Hosts: s.hosts, DriftInterval: s.driftInterval, Say: s.Message}
	var first []*page.Setup
	for _, one := range stacks {
		first, service.Read = append(first, one.first), append(service.Read, one.again)
	}
	err = service.Run(ctx, l, first, again, func(address string) {
		fmt.Fprintln(s.Stdout, address)
		s.Message("The page is served at " + address + ". Stop it with Ctrl-C.")
	})
	s.Message("Stopped.")
	return err
}

// soon is the longest time to connect after which the page says why it cannot.
const soon = 10 * time.Second

// setup is what a configuration says to look at. An ensemble is compared with it unless nothing is declared.
func (s *service) setup(cfg *config.Config) *page.Setup {
	declared := s.servers == "" && len(cfg.Sources) > 0
	out := &page.Setup{Source: lockview.Source{Read: time.Now()}, Targets: s.targets(cfg, s.prefix, s.reads), Stamps: func() string { return s.fileStamps(cfg) }}
	if declared {
		out.Source = sourceOf(cfg)
	}
	for i, e := range cfg.Ensembles {
		t := &out.Targets[i]
		if t.Key = s.keyOf(e); len(s.configs) > 1 {
			t.Ensemble.Name = cfg.Stack + "/" + e.Name
		}
		t.Ensemble.Root, t.Ensemble.Stack, t.Ensemble.Compare = e.Root, cfg.Stack, s.driftInterval > 0 && declared
		t.Scan.Declared = stack.Paths(e.Tree)
		quick := *e // it is dialled again and again, and a reason that comes after minutes is late
		quick.ConnectTimeout = min(e.ConnectTimeout, soon)
		t.Patience, t.Dial = stack.SessionWithin(&quick), func(ctx context.Context) (*recipes.Client, error) { return s.loader().Connect(ctx, &quick, true) }
		t.Compare = func(ctx context.Context, client *recipes.Client) (of page.Comparison, err error) {
			if declared {
				one := *cfg
				one.Ensembles = []*config.Ensemble{e}
				alone := stack.Of(&one, []*recipes.Client{client}, stack.Silent{})
				_, plans, failed := alone.Ask(ctx, plan.Options{})
				if err = failed; err == nil {
					of.Drift = plans[0]
					of.Unapplied = alone.On(ctx, 0, func(session *direct.Session) (err error) {
						of.Applied, err = history.Read(ctx, session, e.Root, cfg.Stack)
						return err
					})
				}
			}
			found, failed := s.checkUp(ctx, e)
			of.Conditions = &found
			return of, cmp.Or(err, failed)
		}
	}
	return out
}

// targets are the ensembles of a configuration as [page.Follow] looks at them.
func (a *app) targets(cfg *config.Config, prefix string, reads int) (out []page.Target) {
	for i, e := range cfg.Ensembles {
		opts := scan.Options{Prefix: prefix, Reads: reads}
		if prefix == "" {
			opts.Declared = stack.Paths(e.Tree)
		}
		out = append(out, page.Target{Ensemble: page.Ensemble{Name: e.Name, Servers: stack.Servers(cfg)[i], Prefix: prefix}, Scan: opts, Patience: stack.SessionWithin(e),
			Dial: func(ctx context.Context) (*recipes.Client, error) { return a.loader().Connect(ctx, e, true) }})
	}
	return out
}
