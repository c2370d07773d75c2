// Package stack loads a configuration, connects to its ensembles, reads their trees and compares them with the configuration. A
// command gets everything that it knows of a stack from here, and shows or applies it.
//
// A [Loader] is a directory with a configuration, and the environment. It makes a [Stack]: a configuration with a connection to
// each ensemble that can be reached. This package writes nothing to ZooKeeper, and prints only what its [Screen] prints.
//
//	err := loader.Look(ctx, inputs, func(s *stack.Stack) error {
//		_, plans, err := s.Ask(ctx, plan.Options{})
//		...
//	})
package stack

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Loader is a directory with a configuration, and everything else that loading and connecting depend on.
type Loader struct {
	Dir     string // -chdir: relative paths start from this directory
	Environ Environ
	Stdin   io.Reader // for -var-file=-
	Version string    // compared with required_version
	Log     io.Writer // for LOCKTREE_LOG
	Screen  Screen
	// Dial is recipes.Dial; a test looks at what commands ask it for.
	Dial func(context.Context, recipes.Config) (*recipes.Client, error)
}

// Screen shows errors and the progress of long steps.
type Screen interface {
	Diagnostics(hcl.Diagnostics, map[string]*hcl.File)
	// During shows the progress of a long step until the returned function is called, once. far says how much of the step is
	// done; it may be nil.
	During(what string, far func(*view.Progress)) (stop func())
}

// Silent is a screen that shows nothing.
type Silent struct{}

// Diagnostics shows nothing.
func (Silent) Diagnostics(hcl.Diagnostics, map[string]*hcl.File) {}

// During shows nothing.
func (Silent) During(string, func(*view.Progress)) (stop func()) { return func() {} }

// Environ is the process environment.
type Environ []string

// Get returns a variable, or "".
func (e Environ) Get(name string) string {
	for i := len(e) - 1; i >= 0; i-- { // a child process sees the last of duplicates
		if k, v, ok := strings.Cut(e[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// Path resolves a path of the command line against the directory.
func (l *Loader) Path(p string) string {
	if l.Dir == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(l.Dir, p)
}

// File is Path for an optional file: it returns "" for "".
func (l *Loader) File(name string) string {
	if name == "" {
		return ""
	}
	return l.Path(name)
}

// Options returns the options of config.Load, with the values of -var and -var-file in the order of the command line.
func (l *Loader) Options(inputs []config.Input) config.Options {
	opts := config.Options{Environ: l.Environ, Version: l.Version}
	for _, in := range inputs {
		switch in.File {
		case "":
		case "-": // for a secret that must be in no file and in no list of processes
			in.File, in.Reader = "<stdin>", l.Stdin
		default:
			in.File = l.Path(in.File)
		}
		opts.Inputs = append(opts.Inputs, in)
	}
	return opts
}

// Load reads the configuration. It shows errors itself; the returned error only ends the command.
func (l *Loader) Load(inputs []config.Input) (*config.Config, error) {
	stop := l.Screen.During("Reading the configuration", nil)
	cfg, diags := config.Load(l.Path("."), l.Options(inputs))
	stop()
	l.Screen.Diagnostics(diags, cfg.Sources)
	if diags.HasErrors() {
		return nil, exit.With(exit.Failed)
	}
	if len(cfg.Ensembles) == 0 {
		l.Screen.Diagnostics(hcl.Diagnostics{l.NoEnsemble()}, nil)
		return nil, exit.With(exit.Failed)
	}
	return cfg, nil
}

// NoEnsemble is the error of a configuration without ensembles.
func (l *Loader) NoEnsemble() *hcl.Diagnostic {
	dir := "This directory"
	if l.Dir != "" {
		dir = "The directory " + l.Dir
	}
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "No configuration",
		Detail: dir + " declares no ensemble, so there is nothing to do. " +
			"\"locktree init\" writes a configuration to start from; -chdir=DIR works on another directory.",
		Extra: view.Address("")}
}

// FromEnvironment describes an ensemble from the environment alone, for commands that need only a path. servers, if any, replace
// ZOOKEEPER_SERVERS. The result is nil if neither is given.
func (l *Loader) FromEnvironment(servers string) (*config.Config, error) {
	env := l.Environ
	if servers != "" {
		env = append(slices.Clone(env), "ZOOKEEPER_SERVERS="+servers)
	}
	e, err := config.FromEnvironment(l.Path("."), env)
	if err != nil {
		return nil, view.Failf("Bad environment", "%v", err)
	}
	if e == nil {
		return nil, nil
	}
	e.Tree = &plan.Tree{Root: e.Root} // nothing is declared
	return &config.Config{Ensembles: []*config.Ensemble{e}}, nil
}

// Where says which locks to look at: those of the stack, or other locks.
type Where struct {
	Inputs          []config.Input
	Servers, Prefix string
}

// Find returns the stack's configuration, or the servers that the command line and the environment name. It also returns the
// prefix of the locks to look at. If the parameter at is an address, the prefix is its path, and the
// configuration has only its ensemble.
func (l *Loader) Find(w Where, at string) (cfg *config.Config, prefix string, err error) {
	if IsAddress(at) {
		if cfg, err = l.Load(w.Inputs); err != nil {
			return nil, "", err
		}
		e, path, err := Declared(cfg, at)
		cfg.Ensembles = []*config.Ensemble{e}
		return cfg, path, err
	}
	if w.Servers != "" {
		w.Prefix = cmp.Or(w.Prefix, "/")
	}
	if w.Prefix != "" {
		cfg, err := l.FromEnvironment(w.Servers)
		if cfg != nil || err != nil {
			return cfg, w.Prefix, err
		}
	}
	cfg, err = l.Load(w.Inputs)
	return cfg, w.Prefix, err
}

// Locks finds locks, each by its address or its path, and the one ensemble that they are on: the ensemble of this name, or the
// only one. With paths alone, what the environment says is enough.
func (l *Loader) Locks(inputs []config.Input, locks []string, ensemble string) (on *config.Ensemble, paths []string, err error) {
	cfg, err := l.configFor(inputs, locks, ensemble)
	if err != nil {
		return nil, nil, err
	}
	for _, lock := range locks {
		e, path := on, lock
		if !strings.HasPrefix(lock, "/") {
			e, path, err = Declared(cfg, lock)
		} else if on == nil || ensemble != "" {
			e, err = Ensemble(cfg, ensemble)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case on != nil && on != e:
			return nil, nil, view.Failf("Locks of two ensembles", "%s is on the ensemble %q, and %s on %q: no transaction can take both. Name locks of one ensemble.", locks[0], on.Name, lock, e.Name)
		case slices.Contains(paths, path):
			return nil, nil, view.Failf("Lock named twice", "%s is named twice. Name each lock once.", path)
		}
		on, paths = e, append(paths, path)
	}
	return on, paths, nil
}

// configFor returns the configuration, or the ensemble that the environment describes if that is enough.
func (l *Loader) configFor(inputs []config.Input, locks []string, ensemble string) (*config.Config, error) {
	addresses := ensemble != ""
	for _, lock := range locks {
		if !strings.HasPrefix(lock, "/") {
			addresses = true
		} else if err := kind.ValidatePath(lock); err != nil {
			return nil, view.Failf("Not a path", "%v. A path is absolute, such as \"/locks/payments/ledger\".", err)
		}
	}
	cfg, err := l.FromEnvironment("") // call it even if the result is not used, to find its errors
	if err == nil && (addresses || cfg == nil) {
		cfg, err = l.Load(inputs)
	}
	return cfg, err
}

// Connect connects to an ensemble. Package config knows servers and identity; session and TLS
// can also come from the ZOOKEEPER_ variables that the Terraform provider for ZooKeeper reads.
// A readOnly client refuses every write: a command that only looks must not be able to do more.
func (l *Loader) Connect(ctx context.Context, e *config.Ensemble, readOnly bool) (*recipes.Client, error) {
	cfg, err := l.ClientConfig(e)
	if err != nil {
		return nil, err
	}
	cfg.ReadOnly = readOnly
	return l.ConnectWith(ctx, e, cfg)
}

// ConnectWith dials. If the configuration pins the ensemble's id, it then calls [read.Recognize], which refuses another ensemble.
func (l *Loader) ConnectWith(ctx context.Context, e *config.Ensemble, cfg recipes.Config) (*recipes.Client, error) {
	client, err := l.Dial(ctx, cfg)
	if err != nil || e.Tree == nil || e.Tree.EnsembleID == "" {
		return client, err
	}
	bounded, cancel := context.WithTimeout(ctx, SessionWithin(e))
	defer cancel()
	s, err := client.Session(bounded)
	if err == nil {
		err = read.Recognize(bounded, s, e.Tree)
	}
	if err != nil {
		err = Denied(bounded, client, err)
		_ = client.Close() // the client holds no lock
		return nil, err
	}
	return client, nil
}

// maxReply bounds a listing, in bytes. It is eight times the limit of a plan, so that a person can look at an overfull
// namespace, and empty it. A reply takes memory only as it arrives.
const maxReply = 128 << 20

// ClientConfig is what to dial an ensemble with. The environment fills what its block leaves open.
func (l *Loader) ClientConfig(e *config.Ensemble) (recipes.Config, error) {
	with := recipes.Config{Logger: l.logger(), MaxReply: maxReply}
	if text := l.Environ.Get("ZOOKEEPER_SESSION"); text != "" && e.SessionTimeout == 0 {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 {
			return with, view.Failf("Bad session timeout", "The environment variable ZOOKEEPER_SESSION is %q: it must be a number of seconds.", text)
		}
		with.SessionTimeout = time.Duration(seconds) * time.Second
	}
	if isTrue(l.Environ.Get("ZOOKEEPER_TLS_SKIP_VERIFY")) {
		return with, view.Failf("TLS cannot go unverified", "The environment variable ZOOKEEPER_TLS_SKIP_VERIFY is true; locktree does not offer that. Unset it, and name the certificate authority of the servers in ca_file or ZOOKEEPER_TLS_CA_FILE.")
	}
	here := *e
	here.TLS = l.TLS(e)
	cfg, err := here.ClientConfig(with)
	var wrong *hcl.Diagnostic
	if errors.As(err, &wrong) {
		err = view.Failf(wrong.Summary, "%s", wrong.Detail)
	}
	return cfg, err
}

// TLS are the files of an ensemble's TLS; nil for a plain connection.
func (l *Loader) TLS(e *config.Ensemble) *config.TLS {
	if e.TLS == nil && isTrue(l.Environ.Get("ZOOKEEPER_TLS_ENABLED")) {
		return &config.TLS{CAFile: l.envFile("ZOOKEEPER_TLS_CA_FILE"), CertFile: l.envFile("ZOOKEEPER_TLS_CERT_FILE"), KeyFile: l.envFile("ZOOKEEPER_TLS_KEY_FILE")}
	}
	return e.TLS
}

// envFile is the file that an environment variable names, or "".
func (l *Loader) envFile(variable string) string { return l.File(l.Environ.Get(variable)) }

func isTrue(text string) bool {
	b, err := strconv.ParseBool(text)
	return err == nil && b
}

// logger is for debugging connections: LOCKTREE_LOG=debug, info, warn or error logs
// to stderr. Unset, it logs nothing.
func (l *Loader) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Environ.Get("LOCKTREE_LOG"))); err != nil {
		return nil
	}
	return slog.New(slog.NewTextHandler(l.Log, &slog.HandlerOptions{Level: level}))
}
