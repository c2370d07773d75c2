package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/serve"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// serveAddress is where the page is served unless something else is asked for.
const serveAddress = "127.0.0.1:7676"

func serveCommand(a *app) *cobra.Command {
	s := &service{app: a, asking: make(chan struct{}, 1)}
	c := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"web", "ui", "page", "dashboard", "exporter", "metrics"},
		Short:      "Serve a page that shows who holds and who waits",
		Long: "serve shows the locks of the stack on a web page, until it is interrupted: problems first, each\n" +
			"lock with its queue and history, who waits for whom, drift, and what doctor finds. With -prefix\n" +
			"it shows every lock below a path, whoever made it; with -servers, or ZOOKEEPER_SERVERS and\n" +
			"-prefix, no configuration is read. /metrics is for Prometheus, /api/v1/status is what\n" +
			"\"locktree status -json\" prints, read at most every 10 s, as its timestamp says, and /healthz\n" +
			"and /readyz are for health checks.\n\n" +
			"It changes nothing: its connection to ZooKeeper refuses writes. If the servers allow the\n" +
			"four-letter words dump and cons, a look is cheap and also shows where holders connect from.\n\n" +
			"It serves only this machine, unless -web-config names a file in the format of Prometheus' web\n" +
			"configuration, with basic_auth_users, or a tls_server_config that requires client certificates.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if s.healthcheck {
				return s.askHealth(c)
			}
			if err := s.check(c); err != nil {
				return err
			}
			cfg, err := s.configured(c, &s.treeFlags)
			if err != nil {
				return err
			}
			return s.run(c.Context(), cfg)
		},
	}
	s.register(c)
	f := c.Flags()
	f.StringVar(&s.listen, "listen", serveAddress, "the `ADDRESS` to serve on; port 0 is any free one")
	f.StringVar(&s.webConfig, "web-config", "", "a web configuration `FILE` in Prometheus' format: who may look, and the certificate")
	f.StringArrayVar(&s.hosts, "host", nil, "accept this host `NAME` in requests, besides localhost and addresses; may be repeated")
	f.DurationVar(&s.interval, "interval", 2*time.Second, "look again after this `DURATION`")
	f.IntVar(&s.reads, "reads", readsPerLook, "the most requests per look, except for the first; 0 means no limit")
	f.DurationVar(&s.driftInterval, "drift-interval", 5*time.Minute, "compare with the configuration, and run doctor's checks, after this `DURATION`; 0 means never")
	f.BoolVar(&s.healthcheck, "healthcheck", false, "serve nothing; exit with 0 if the page at -listen answers, otherwise with 1")
	f.IntVar(&s.history, "history", 10_000, "how many changes of holders to remember")
	return c
}

// service is one run of serve.
type service struct {
	*app
	treeFlags
	listen, webConfig       string
	hosts                   []string
	interval, driftInterval time.Duration
	reads, history          int
	healthcheck             bool

	web   *serve.WebConfig
	board *serve.Board
	stack *stack

	mu sync.Mutex // over the clients of the stack

	asking   chan struct{} // taken by who asks for the status
	document []byte        // what it was last
	failed   error         // or why it was not to be had
	written  time.Time
}

func (s *service) check(c *cobra.Command) error {
	if s.interval < 100*time.Millisecond || s.driftInterval != 0 && s.driftInterval < time.Second || s.reads < 0 || s.history < 1 {
		return usage(c, "Bad flag", "-interval must be at least 100ms, -history at least 1, -reads not negative, and -drift-interval 0 or at least 1s.")
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
	if s.webConfig != "" {
		if s.web, err = serve.ReadWebConfig(s.path(s.webConfig)); err != nil {
			return view.Failf("Cannot use the web configuration", "%v.", err)
		}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		if !s.web.Authenticates() {
			return view.Failf("The page would be open to everybody", "Other machines can reach -listen=%s. "+
				"Serve on %s, behind a proxy if necessary, or name a -web-config with basic_auth_users, or with a tls_server_config that requires client certificates.", s.listen, serveAddress)
		}
		if !s.web.Encrypts() {
			s.view().Message("Warning: passwords for this page cross the network unencrypted. Name a certificate in tls_server_config of the web configuration, unless a proxy in front of it encrypts.")
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
		return view.Failf("No page answers", "%v. See that \"locktree serve\" runs there.", err)
	}
	return resp.Body.Close()
}

// run serves until it is told to end. Servers that cannot be reached are no reason not to.
func (s *service) run(ctx context.Context, cfg *config.Config) error {
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return view.Failf("Cannot listen on "+s.listen, "%v. Choose another address with -listen, as in -listen=127.0.0.1:0 for any free port.", err)
	}
	defer l.Close()
	address := "http://" + l.Addr().String() + "/"
	s.prepare(cfg)
	handler := serve.Server(serve.Guard(s.board.Handler(), s.hosts, s.web.Login()))
	listener := serve.Limit(l, handler)
	if s.web.Encrypts() {
		config, err := s.web.TLSConfig()
		if err != nil {
			return err
		}
		config.NextProtos = []string{"http/1.1"} // the limits are on connections, each of which is one request at a time
		listener, address = tls.NewListener(listener, config), strings.Replace(address, "http:", "https:", 1)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var looking sync.WaitGroup
	for i := range cfg.Ensembles {
		looking.Go(func() { s.watch(ctx, i) })
	}
	if s.driftInterval > 0 {
		looking.Go(func() { s.compare(ctx) })
	}
	fmt.Fprintln(s.stdout, address)
	s.view().Message("The page is served at " + address + ". Stop it with Ctrl-C.")
	ended := make(chan error, 1)
	go func() { ended <- handler.Serve(listener) }()
	select {
	case err = <-ended:
		err = view.Failf("The page is not served any more", "%v.", err)
	case <-ctx.Done():
		err = nil
	}
	stop()
	s.board.Close()
	s.end(handler, &looking)
	s.view().Message("Stopped.")
	return err
}

// endWithin is for what is under way when serve is told to stop.
const endWithin = 700 * time.Millisecond

// end lets answers that are under way be finished and closes the sessions, if that can be done soon: they hold nothing.
func (s *service) end(handler *http.Server, looking *sync.WaitGroup) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		looking.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.stack.clients {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	if handler.Shutdown(ctx) != nil {
		_ = handler.Close()
	}
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

func (s *service) prepare(cfg *config.Config) {
	s.stack = &stack{Config: cfg, clients: make([]*recipes.Client, len(cfg.Ensembles))}
	var ensembles []serve.Ensemble
	for i, e := range cfg.Ensembles {
		ensembles = append(ensembles, serve.Ensemble{Name: e.Name, Servers: serverLists(cfg)[i], Prefix: s.prefix, Compare: s.driftInterval > 0 && s.declared()})
	}
	s.board = serve.NewBoard(serve.Options{Version: version(), Interval: s.interval, History: s.history, Status: s.status}, ensembles...)
}

// pause waits for d; false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch looks at one ensemble again and again. A session that is lost is followed by the next one.
func (s *service) watch(ctx context.Context, i int) {
	e := s.stack.Ensembles[i]
	client := s.connectTo(ctx, i)
	if client == nil {
		return
	}
	scanner := inspect.NewScanner(client, inspect.ScanOptions{Declared: locksIn(e.Tree), Prefix: s.prefix, Reads: s.reads})
	for again := true; again; again = pause(ctx, s.interval) {
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second+3*s.interval)
		snap, err := scanner.Scan(bounded)
		cancel()
		switch {
		case err == nil:
			s.board.Saw(e.Name, snap)
		case ctx.Err() == nil:
			s.board.Failed(e.Name, err)
		}
	}
}

// connectTo tries until it succeeds; nil when ctx has ended.
func (s *service) connectTo(ctx context.Context, i int) *recipes.Client {
	e := s.stack.Ensembles[i]
	for again := true; again; again = pause(ctx, s.interval) {
		c, err := s.dial(ctx, e, true)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stack.clients[i] = c
			return c
		}
		if ctx.Err() == nil {
			s.board.Failed(e.Name, err)
		}
	}
	return nil
}

var errNotConnected = errors.New("not connected to every ensemble yet")

// ready is an error as long as an ensemble has no client.
func (s *service) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.stack.clients, nil) {
		return errNotConnected
	}
	return nil
}

// compare looks at drift and at doctor's conditions again and again.
func (s *service) compare(ctx context.Context) {
	for s.ready() != nil {
		if !pause(ctx, s.interval) {
			return
		}
	}
	for again := true; again; again = pause(ctx, s.driftInterval) {
		bounded, cancel := context.WithTimeout(ctx, min(s.driftInterval, 5*time.Minute))
		s.compareOnce(bounded)
		cancel()
	}
}

// declared reports whether there is a configuration to compare with.
func (s *service) declared() bool { return s.servers == "" && len(s.stack.Sources) > 0 }

func (s *service) compareOnce(ctx context.Context) {
	declared := s.declared()
	var plans []*plan.Plan
	var trouble error
	if declared {
		if trees, err := s.stack.read(ctx); err != nil {
			trouble = err
		} else {
			plans = s.stack.diff(trees, plan.Options{})
		}
	}
	for i, e := range s.stack.Ensembles {
		found, err := s.checkUp(ctx, e)
		if err = cmp.Or(trouble, err); ctx.Err() != nil && err == nil {
			return
		}
		s.board.Change(e.Name, func(of *serve.Ensemble) {
			of.Trouble = ""
			if err != nil {
				of.Trouble = view.Brief(err)
				return
			}
			of.Checkup, of.CheckAt = &found, time.Now()
			if declared {
				of.Drift, of.DriftAt, of.Plan = plans[i], time.Now(), planText(plans[i])
			}
		})
	}
}

// planText is a plan as "locktree plan" shows it.
func planText(p *plan.Plan) string {
	var out bytes.Buffer
	text := view.Stream{Writer: &out, Width: 100}
	view.NewHuman(text, text).Tell(view.Plan{Plans: []*plan.Plan{p}, NoAdvice: true, NowMs: time.Now().UnixMilli()})
	if text := strings.TrimSpace(out.String()); len(text) <= maxPlanText {
		return text
	}
	return strings.ToValidUTF8(out.String()[:maxPlanText], "") + "\n\nThere is more: run \"locktree plan\"."
}

// maxPlanText is how much of a plan the page shows.
const maxPlanText = 64 << 10

// statusEvery keeps programs that ask for the status from reading the tree more often than this, and statusWithin bounds how
// long they wait for it.
const (
	statusEvery  = 10 * time.Second
	statusWithin = 20 * time.Second
)

// status is the document of "locktree status -json", with a path where no configuration is read.
func (s *service) status(ctx context.Context) ([]byte, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	select {
	case s.asking <- struct{}{}: // one at a time asks for it; who goes away does not wait on
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.written.IsZero() || time.Since(s.written) >= statusEvery {
		s.document, s.failed = s.readStatus(ctx)
		if ctx.Err() != nil { // the reader's end says nothing of the servers
			return nil, ctx.Err()
		}
		s.written = time.Now()
	}
	return s.document, s.failed
}

func (s *service) readStatus(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	var out, said bytes.Buffer
	a := &app{terminal: s.terminal, dir: s.dir, dialClient: s.dialClient, v: view.NewDocuments(&out, view.Stream{Writer: &said}, version())}
	var err error
	if len(s.stack.Sources) > 0 {
		err = a.stackStatus(ctx, s.stack, false)
	} else {
		err = a.lookAt(ctx, s.stack, s.prefix)
	}
	if out.Len() == 0 { // else it is what could be read
		return nil, cmp.Or(err, errNotConnected)
	}
	return out.Bytes(), nil
}
