package main

import (
	"bytes"
	"context"
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

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/serve"
	"github.com/locktree/locktree/config"
)

// keepInput keeps what standard input has, which can be read once.
func (s *service) keepInput() (err error) {
	if slices.ContainsFunc(s.inputs, func(in config.Input) bool { return in.File == "-" }) {
		if s.input, err = io.ReadAll(s.stdin); err != nil {
			return view.Failf("Cannot read standard input", "%v.", err)
		}
		s.stdin = bytes.NewReader(s.input)
	}
	return nil
}

// followFiles reads everything again when a file has changed, and when it is told to.
func (s *service) followFiles(ctx context.Context, told <-chan os.Signal) {
	look := time.NewTicker(s.interval)
	defer look.Stop()
	for {
		select {
		case <-told:
			s.reread(ctx)
			s.compareNow()
		case <-look.C:
			s.reading.Lock()
			same := s.stamps == s.fileStamps(s.current())
			s.reading.Unlock()
			if !same {
				s.reread(ctx)
				s.compareNow()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *service) compareNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watched {
		select {
		case w.news <- struct{}{}:
		default: // it is told already
		}
	}
}

// current is the configuration that is in use.
func (s *service) current() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watched {
		return w.stack
	}
	return &config.Config{}
}

// reread reads the configuration again and puts it in force. One that has errors is not: what there was stays, and the page, the
// metrics and standard error say so.
func (s *service) reread(ctx context.Context) {
	s.reading.Lock()
	defer s.reading.Unlock()
	was := s.current()
	before := s.fileStamps(was)
	cfg, opened, err := s.readAll()
	changing := before != s.fileStamps(was) // while it was read: it is read once more
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		said := view.Brief(err)
		if said != s.source.Error {
			s.view().Message(fmt.Sprintf("The configuration was read again and is not used: %s. The one of %s stays in force.", said, s.source.Read.UTC().Format(time.RFC3339)))
		}
		if s.source.Error == "" {
			s.source.Failed = time.Now()
		}
		s.source.Error, s.stamps = said, before
		s.board.Reread(s.source)
		return
	}
	if s.source.Error != "" {
		s.view().Message("The configuration was read again and is in force.")
	}
	s.door.Store(opened)
	if s.adopt(ctx, cfg); changing {
		s.stamps = before
	}
}

// readAll reads the configuration, and all files that it needs.
func (s *service) readAll() (*config.Config, *door, error) {
	opened, err := s.readDoor()
	if err != nil {
		return nil, nil, err
	}
	if was := s.door.Load(); was.web.Authenticates() != opened.web.Authenticates() || was.web.Encrypts() != opened.web.Encrypts() {
		return nil, nil, errors.New("the web configuration asks for passwords or certificates now, or does not any more: restart serve")
	}
	var cfg *config.Config
	if s.prefix != "" {
		if cfg, err = s.configOfEnvironment(); err != nil {
			return nil, nil, err
		}
	}
	if cfg == nil {
		again := &app{terminal: terminal{stdin: bytes.NewReader(s.input), env: s.env}, dir: s.dir}
		read, diags := config.Load(again.path("."), again.options(&s.loadFlags))
		if diags.HasErrors() {
			return nil, nil, firstError(diags)
		}
		cfg = read
	}
	if len(cfg.Ensembles) == 0 {
		return nil, nil, errors.New("it declares no ensemble")
	}
	for _, e := range cfg.Ensembles {
		if _, err := s.clientConfig(e); err != nil {
			return nil, nil, err
		}
	}
	return cfg, opened, nil
}

// firstError is one of the errors, where it is and how many more there are.
func firstError(diags hcl.Diagnostics) error {
	var errs []*hcl.Diagnostic
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			errs = append(errs, d)
		}
	}
	text := errs[0].Summary + ": " + errs[0].Detail
	if at := errs[0].Subject; at != nil {
		text = fmt.Sprintf("%s:%d: %s", at.Filename, at.Start.Line, text)
	}
	if len(errs) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(errs)-1)
	}
	return errors.New(text)
}

func (s *service) readDoor() (*door, error) {
	if s.webConfig == "" {
		return &door{}, nil
	}
	web, err := serve.ReadWebConfig(s.path(s.webConfig))
	if err != nil {
		return nil, err
	}
	encrypted, err := web.TLSConfig()
	if err != nil {
		return nil, err
	}
	if encrypted != nil {
		encrypted.NextProtos = []string{"http/1.1"} // the limits are on connections, each of which is one request at a time
	}
	return &door{web, web.Login(), encrypted}, nil
}

// sourceOf is what the page says of a configuration. The fingerprint is of the files that declare, not of those with values,
// which may be secret.
func (s *service) sourceOf(cfg *config.Config) serve.Source {
	source := serve.Source{Read: time.Now()}
	if !s.declared(cfg) {
		return source
	}
	if source.Path = cfg.Dir; !filepath.IsAbs(cfg.Dir) {
		source.Path, _ = filepath.Abs(cfg.Dir) // which fails if the working directory is gone
	}
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

// fileStamps tell whether a file has changed: those of the configuration and their directories, those of variables, the
// certificates, and the web configuration. What a function such as file() has read is not among them.
func (s *service) fileStamps(cfg *config.Config) string {
	names := map[string]bool{}
	for name := range cfg.Sources {
		names[name], names[filepath.Dir(name)] = true, true
	}
	for _, in := range s.options(&s.loadFlags).Inputs {
		if in.File != "" && in.Reader == nil {
			names[in.File] = true
		}
	}
	for _, e := range cfg.Ensembles {
		if t := s.tlsOf(e); t != nil {
			for _, name := range tlsFiles(t) {
				names[name] = true
			}
		}
	}
	if s.webConfig != "" {
		names[s.path(s.webConfig)] = true
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// fileContent is that of a file, "" if it cannot be read.
func fileContent(name string) []byte {
	content, _ := os.ReadFile(name) // whoever uses the file says what is wrong
	return content
}
