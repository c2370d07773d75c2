package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/page"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/config"
)

// keepInput keeps what standard input has, which can be read once.
func (s *service) keepInput() (err error) {
	if slices.ContainsFunc(s.inputs, func(in config.Input) bool { return in.File == "-" }) {
		if s.input, err = io.ReadAll(io.LimitReader(s.Stdin, 32<<20)); err != nil {
			return view.Failf("Cannot read standard input", "%v.", err)
		}
		s.Stdin = bytes.NewReader(s.input)
	}
	return nil
}

// pageOf is one stack of the page, or what it shows without one.
type pageOf struct {
	first *page.Setup
	again func() (*page.Setup, error)
}

// stacks reads what the page shows: that of -chdir or of the environment, or that of each -config. Among several, one with errors is
// left for later, unless all have errors.
func (s *service) stacks(c *cobra.Command) ([]pageOf, error) {
	if len(s.configs) == 0 {
		cfg, err := s.configured(c, s.loader(), "")
		if err != nil {
			return nil, err
		}
		return []pageOf{{s.setup(cfg), s.readAgain}}, nil
	}
	if s.servers != "" || len(s.inputs) > 0 {
		return nil, usage(c, "Bad flag", "-config is not for use with -servers, -var and -var-file. Write values into a file such as values.auto.ltvars beside each configuration.")
	}
	if err := s.checkPrefix(c); err != nil {
		return nil, err
	}
	var all []pageOf
	var setups []*page.Setup
	var failed []string
	for _, dir := range s.configs {
		one := s.of(dir)
		setup, err := one.readAgain()
		if err == nil {
			err = page.Apart(setup, setups...)
		}
		if err != nil {
			why := view.Brief(err)
			failed = append(failed, dir+": "+why)
			s.Message(fmt.Sprintf("The configuration in %s is not used: %s It is read again when a file of it changes.", dir, why))
			setup = &page.Setup{Stamps: func() string { return one.fileStamps(&config.Config{Sources: filesIn(one.dir)}) }}
			setup.Source = lockview.Source{Stack: dir, Path: one.dir, Error: why, Failed: time.Now()}
		}
		all, setups = append(all, pageOf{setup, one.readAgain}), append(setups, setup)
	}
	if len(failed) == len(all) {
		return nil, view.Failf("No configuration can be used", "%s \"locktree -chdir=DIR validate\" shows more.", strings.Join(failed, "\n"))
	}
	return all, nil
}

// of is the service of one directory.
func (s *service) of(dir string) *service {
	one := *s
	one.app = &app{Screen: s.Screen, dir: absolute(s.loader().Path(dir)), dialClient: s.dialClient}
	return &one
}

// filesIn are the names of all files in a directory whose configuration could not be read.
func filesIn(dir string) map[string]*hcl.File {
	files, _ := os.ReadDir(dir) // perhaps that is why
	names := map[string]*hcl.File{}
	for _, f := range files {
		names[filepath.Join(dir, f.Name())] = nil
	}
	return names
}

// absolute is "" for a file that nobody names.
func absolute(path string) string {
	if path != "" && !filepath.IsAbs(path) {
		path, _ = filepath.Abs(path) // which fails if the working directory is gone
	}
	return path
}

// readAgain reads the configuration, and all files that it needs.
func (s *service) readAgain() (*page.Setup, error) {
	var cfg *config.Config
	var err error
	if s.prefix != "" && len(s.configs) == 0 {
		if cfg, err = s.loader().FromEnvironment(s.servers); err != nil {
			return nil, err
		}
	}
	if cfg == nil {
		again := s.loader()
		again.Stdin = bytes.NewReader(s.input)
		read, diags := config.Load(again.Path("."), again.Options(s.inputs))
		if diags.HasErrors() {
			return nil, firstError(diags)
		}
		cfg = read
	}
	if len(cfg.Ensembles) == 0 {
		return nil, errors.New("it declares no ensemble")
	}
	for _, e := range cfg.Ensembles {
		if _, err := s.loader().ClientConfig(e); err != nil {
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

// sourceOf is what the page says of a configuration. The fingerprint is of the files that declare, not of those with values,
// which may be secret.
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

// fileStamps tell whether a file has changed: those of the configuration and their directories, those of variables, and
// the certificates. What a function such as file() has read is not among them.
func (s *service) fileStamps(cfg *config.Config) string {
	names := map[string]bool{}
	for name := range cfg.Sources {
		names[name], names[filepath.Dir(name)] = true, true
	}
	for _, in := range s.loader().Options(s.inputs).Inputs {
		if in.File != "" && in.Reader == nil {
			names[in.File] = true
		}
	}
	for _, e := range cfg.Ensembles {
		for _, name := range slices.Concat(tlsFiles(s.loader().TLS(e)), e.SecretFiles()) {
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
func (s *service) keyOf(e *config.Ensemble) [sha256.Size]byte {
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
	if t := s.loader().TLS(e); t != nil {
		fmt.Fprintf(h, "%q\n", t.ServerName)
		for _, name := range tlsFiles(t) {
			content, _ := config.ReadFile(name) // whoever uses the file says what is wrong
			fmt.Fprintf(h, "%q %q\n", name, content)
		}
	}
	for _, path := range stack.Paths(e.Tree) {
		fmt.Fprintf(h, "%q\n", path)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
