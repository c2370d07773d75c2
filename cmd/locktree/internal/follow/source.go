package follow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/page"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// source is one stack of the page: a configuration in a directory, or what the environment describes.
type source struct {
	loader *stack.Loader
	asked  Options
}

// dialLimit limits the time to connect. After it, the page says why no connection was made.
const dialLimit = 10 * time.Second

// setup is what a configuration says to look at. An ensemble is compared with it unless nothing is declared.
func (s *source) setup(cfg *config.Config) *page.Setup {
	declared := s.asked.Where.Servers == "" && len(cfg.Sources) > 0
	out := &page.Setup{Source: lockview.Source{Read: time.Now()}, Targets: targets(s.loader, cfg, s.asked.Where.Prefix, s.asked.Reads), Stamps: func() string { return s.stamps(cfg) }}
	if declared {
		out.Source = sourceOf(cfg)
	}
	for i, e := range cfg.Ensembles {
		t := &out.Targets[i]
		if t.Key = s.keyOf(e); len(s.asked.Dirs) > 1 {
			t.Ensemble.Name = cfg.Stack + "/" + e.Name
		}
		t.Ensemble.Root, t.Ensemble.Stack, t.Ensemble.Compare = e.Root, cfg.Stack, s.asked.DriftInterval > 0 && declared
		t.Scan.Declared = stack.Paths(e.Tree)
		quick := *e // the page dials again and again, so a short limit shows early why a connection fails
		quick.ConnectTimeout = min(e.ConnectTimeout, dialLimit)
		t.Patience, t.Dial = stack.SessionWithin(&quick), func(ctx context.Context) (*recipes.Client, error) { return s.loader.Connect(ctx, &quick, true) }
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
			found, failed := stack.CheckUp(ctx, s.loader, e)
			of.Conditions = &found
			return of, cmp.Or(err, failed)
		}
	}
	return out
}

// targets are the ensembles of a configuration as [page.Follow] looks at them.
func targets(l *stack.Loader, cfg *config.Config, prefix string, reads int) (out []page.Target) {
	for i, e := range cfg.Ensembles {
		opts := scan.Options{Prefix: prefix, Reads: reads}
		if prefix == "" {
			opts.Declared = stack.Paths(e.Tree)
		}
		out = append(out, page.Target{Ensemble: page.Ensemble{Name: e.Name, Servers: stack.Servers(cfg)[i], Prefix: prefix}, Scan: opts, Patience: stack.SessionWithin(e),
			Dial: func(ctx context.Context) (*recipes.Client, error) { return l.Connect(ctx, e, true) }})
	}
	return out
}

// sources reads what the page shows. Among the configurations of several directories, one with errors is left for later, unless all have
// errors.
func (o *Options) sources(to *screen.Screen, l *stack.Loader, cfg *config.Config) (all []*source, first []*page.Setup, err error) {
	if len(o.Dirs) == 0 {
		one := &source{l, *o}
		return []*source{one}, []*page.Setup{one.setup(cfg)}, nil
	}
	var failed []string
	for _, dir := range o.Dirs {
		at := *l
		at.Dir = absolute(l.Path(dir))
		one := &source{&at, *o}
		setup, err := one.read()
		if err == nil {
			err = page.Apart(setup, first...)
		}
		if err != nil {
			why := view.Brief(err)
			failed = append(failed, dir+": "+why)
			to.Message(fmt.Sprintf("The configuration in %s is not used: %s It is read again when one of its files changes.", kind.Visible(dir), why))
			setup = &page.Setup{Stamps: func() string { return one.stamps(&config.Config{Sources: filesIn(at.Dir)}) }}
			setup.Source = lockview.Source{Stack: dir, Path: at.Dir, Error: why, Failed: time.Now()}
		}
		all, first = append(all, one), append(first, setup)
	}
	if len(failed) == len(all) {
		return nil, nil, view.Failf("No configuration can be used", "%s \"locktree -chdir=DIR validate\" shows more.", strings.Join(failed, "\n"))
	}
	return all, first, nil
}

// filesIn are the names of all files in a directory whose configuration could not be read.
func filesIn(dir string) map[string]*hcl.File {
	files, _ := os.ReadDir(dir) // an unreadable directory gives no names; it may be the reason for the failed load
	names := map[string]*hcl.File{}
	for _, f := range files {
		names[filepath.Join(dir, f.Name())] = nil
	}
	return names
}

// absolute makes a path absolute; "" stays "".
func absolute(path string) string {
	if path != "" && !filepath.IsAbs(path) {
		path, _ = filepath.Abs(path) // Abs fails only if the working directory is gone
	}
	return path
}

// read reads the configuration, and all files that it needs.
func (s *source) read() (*page.Setup, error) {
	var cfg *config.Config
	var err error
	if s.asked.Where.Prefix != "" && len(s.asked.Dirs) == 0 {
		if cfg, err = s.loader.FromEnvironment(s.asked.Where.Servers); err != nil {
			return nil, err
		}
	}
	if cfg == nil {
		again := *s.loader
		again.Stdin = bytes.NewReader(s.asked.Input)
		loaded, diags := config.Load(again.Path("."), again.Options(s.asked.Where.Inputs))
		if diags.HasErrors() {
			return nil, firstError(diags)
		}
		cfg = loaded
	}
	if len(cfg.Ensembles) == 0 {
		return nil, errors.New("it declares no ensemble")
	}
	for _, e := range cfg.Ensembles {
		if _, err := s.loader.ClientConfig(e); err != nil {
			return nil, err
		}
	}
	return s.setup(cfg), nil
}

// firstError is one of the errors, where it is and how many more there are.
func firstError(diags hcl.Diagnostics) error {
	errs := slices.DeleteFunc(slices.Clone(diags), func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError })
	text := errs[0].Summary + ": " + errs[0].Detail
	if at := errs[0].Subject; at != nil {
		text = fmt.Sprintf("%s:%d: %s", at.Filename, at.Start.Line, text)
	}
	if len(errs) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(errs)-1)
	}
	return errors.New(text)
}

// sourceOf returns what the page shows of a configuration. The fingerprint covers the files with declarations, not the
// files with values, which may be secret.
func sourceOf(cfg *config.Config) lockview.Source {
	source := lockview.Source{Read: time.Now()}
	source.Stack, source.Path = cfg.Stack, absolute(cfg.Dir)
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if strings.HasSuffix(name, ".locktree.hcl") || strings.HasSuffix(name, ".locktree.json") {
			fmt.Fprintf(h, "%q %d\n", name, len(cfg.Sources[name].Bytes))
			h.Write(cfg.Sources[name].Bytes)
			source.Files++
		}
	}
	source.Fingerprint = hex.EncodeToString(h.Sum(nil)[:6])
	return source
}

// stamps tell whether a file has changed: a file of the configuration, its directory, a file of variables, a certificate,
// or a file with credentials. They do not cover files that a function such as file() reads.
func (s *source) stamps(cfg *config.Config) string {
	names := map[string]bool{}
	for name := range cfg.Sources {
		names[name], names[filepath.Dir(name)] = true, true
	}
	for _, in := range s.loader.Options(s.asked.Where.Inputs).Inputs {
		if in.File != "" && in.Reader == nil {
			names[in.File] = true
		}
	}
	for _, e := range cfg.Ensembles {
		for _, name := range slices.Concat(tlsFiles(s.loader.TLS(e)), e.SecretFiles()) {
			names[name] = true
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

func tlsFiles(t *config.TLS) []string {
	if t == nil {
		return nil
	}
	return slices.DeleteFunc([]string{t.CAFile, t.CertFile, t.KeyFile}, func(name string) bool { return name == "" })
}

// keyOf identifies what a client and a scanner are made of.
func (s *source) keyOf(e *config.Ensemble) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %v %v\n", e.Servers, e.AuthName, e.Tree.EnsembleID, e.SessionTimeout, e.ConnectTimeout)
	for _, a := range e.Auth {
		fmt.Fprintf(h, "%q %q\n", a.Scheme, string(a.Credentials))
	}
	if l := e.Login; l != nil { // its files are read again without a new client
		fmt.Fprintf(h, "%q %q %q\n", l.User, string(l.Password), l.PasswordFile)
		if l.Kerberos != nil {
			fmt.Fprintf(h, "%+v\n", *l.Kerberos)
		}
	}
	if t := s.loader.TLS(e); t != nil {
		fmt.Fprintf(h, "%q\n", t.ServerName)
		for _, name := range tlsFiles(t) {
			content, _ := config.ReadFile(name) // the code that uses the file says what is wrong
			fmt.Fprintf(h, "%q %q\n", name, content)
		}
	}
	for _, path := range stack.Paths(e.Tree) {
		fmt.Fprintf(h, "%q\n", path)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
