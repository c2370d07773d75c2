// Package stack loads a configuration, connects to its ensembles, reads their trees and compares them with the configuration. A
// command gets everything that it knows of a stack from here, and shows or applies it.
//
// A [Loader] is a directory with a configuration, and the environment. It makes a [Stack]: a configuration with a connection to each
// ensemble that can be reached. This package writes nothing to ZooKeeper, and prints only what its [Screen] prints.
//
//	err := loader.Look(ctx, inputs, func(s *stack.Stack) error {
//		_, plans, err := s.Ask(ctx, plan.Options{})
//		...
//	})
package stack

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Loader is a directory with a configuration, and everything that loading and connecting depend on besides.
type Loader struct {
	Dir     string // -chdir: relative paths are relative to it
	Environ Environ
	Stdin   io.Reader // for -var-file=-
	Version string    // compared with required_version
	Log     io.Writer // for LOCKTREE_LOG
	Screen  Screen
	// Dial is recipes.Dial; a test looks at what commands ask it for.
	Dial func(context.Context, recipes.Config) (*recipes.Client, error)
}

// Screen shows what happens meanwhile.
type Screen interface {
	Diagnostics(hcl.Diagnostics, map[string]*hcl.File)
	// During shows how far a long step is, until the returned function, which is to be called once. far says how much of it is done; it
	// may be nil.
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

// File is Path for a file that may not be named: "" stays that.
func (l *Loader) File(name string) string {
	if name == "" {
		return ""
	}
	return l.Path(name)
}

// Options are those of config.Load, with the values of -var and -var-file in the order of the command line.
func (l *Loader) Options(inputs []config.Input) config.Options {
	opts := config.Options{Environ: l.Environ, Version: l.Version}
	for _, in := range inputs {
		switch in.File {
		case "":
		case "-": // for a secret that must not be in a file or a list of processes
			in.File, in.Reader = "<stdin>", l.Stdin
		default:
			in.File = l.Path(in.File)
		}
		opts.Inputs = append(opts.Inputs, in)
	}
	return opts
}

// Load reads the configuration. It shows errors itself; the one it returns only ends the command.
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

// Where says which locks to look at: those of the stack, or others.
type Where struct {
	Inputs          []config.Input
	Servers, Prefix string
}

// Find is the stack's configuration, or what the command line and the environment say about where to look, and the prefix of the
// locks to look at. If at is an address, the prefix is its path, and its ensemble is the only one.
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

// configFor is the configuration, or what the environment says where that is enough.
func (l *Loader) configFor(inputs []config.Input, locks []string, ensemble string) (*config.Config, error) {
	addresses := ensemble != ""
	for _, lock := range locks {
		if !strings.HasPrefix(lock, "/") {
			addresses = true
		} else if err := kind.ValidatePath(lock); err != nil {
			return nil, view.Failf("Not a path", "%v. A path is absolute, such as \"/locks/payments/ledger\".", err)
		}
	}
	cfg, err := l.FromEnvironment("") // also where it is not used, to say what is wrong with it
	if err == nil && (addresses || cfg == nil) {
		cfg, err = l.Load(inputs)
	}
	return cfg, err
}
