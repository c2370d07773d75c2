// Package starter has the configurations that "locktree init" writes. It never changes a file that exists.
//
//	err := starter.Init(ctx, os.Stdout, loader, inputs, starter.Templates["start"])
package starter

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

// Init writes a template, loads what is there, and says which ensembles can be reached.
func Init(ctx context.Context, out io.Writer, l *stack.Loader, inputs []config.Input, files Template) error {
	wrote, err := files.write(l)
	if err != nil {
		return err
	}
	cfg, err := l.Load(inputs)
	if err != nil {
		return err
	}
	for _, f := range files {
		if wrote {
			fmt.Fprintf(out, "Wrote %s: %s. Change it as you like.\n", f.File, f.About)
		}
	}
	if !wrote {
		fmt.Fprintln(out, "This directory already has a configuration. Nothing was written.")
	}
	for _, e := range cfg.Ensembles {
		if reach(ctx, out, l, e); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Fprintln(out, "\nlocktree has been successfully initialized! Next, try \"locktree plan\".")
	return nil
}

// reach says whether an ensemble can be reached. If it cannot, that is no error: the servers may come after the
// configuration.
func reach(ctx context.Context, out io.Writer, l *stack.Loader, e *config.Ensemble) {
	name := view.Line(fmt.Sprintf("Ensemble %q (%s)", e.Name, strings.Join(e.Servers, ",")))
	client, err := l.Connect(ctx, e, true)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		detail := view.Explain(err)[0]
		if detail.Detail == "" { // an error in the library's own words
			fmt.Fprintf(out, "%s cannot be used. %s\n", name, view.Brief(err))
			return
		}
		fmt.Fprintf(out, "%s does not answer yet. %s\nFor a first try, \"locktree dev\" serves one on this machine.\n", name, view.CleanLines(detail.Detail))
		return
	}
	_ = client.Close()
	fmt.Fprintf(out, "%s is reachable.\n", name)
}

// Part is a file that init writes, with STACK and SERVERS to be filled in.
type Part struct{ File, About, text string }

// Name is the file that every template has. init writes it last, so if it exists, the other files do, too.
const Name = "main.locktree.hcl"

var (
	//go:embed starter.locktree.hcl
	starter string
	//go:embed production/main.locktree.hcl
	production string
	//go:embed production/teams/payments/locks.locktree.hcl
	productionPayments string
	//go:embed production/teams/search/locks.locktree.hcl
	productionSearch string
)

// Template is the files of one configuration, in the order of writing.
type Template []Part

// Templates are what init -template writes.
var Templates = map[string]Template{
	"start": {{Name, "a namespace with three locks to start from", starter}},
	"production": {
		{"teams/payments/locks.locktree.hcl", "the locks of a team", productionPayments},
		{"teams/search/locks.locktree.hcl", "the locks of another team", productionSearch},
		{Name, "the ensemble with TLS, who may apply, plan and use which locks, and a module per team", production},
	},
}

// write writes a template where there is no configuration at all.
func (t Template) write(l *stack.Loader) (wrote bool, err error) {
	dir := l.Path(".")
	for _, pattern := range []string{"*.locktree.hcl", "*.locktree.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			return false, err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	fill := strings.NewReplacer("STACK", stackName(filepath.Base(abs)), "SERVERS", servers(l.Environ))
	for _, f := range t {
		path := filepath.Join(dir, filepath.FromSlash(f.File))
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = disk.Create(path, 0o644, []byte(fill.Replace(f.text)))
		}
		if errors.Is(err, fs.ErrExist) && f.File == Name {
			return false, nil // another program created it first
		}
		if err != nil && !errors.Is(err, fs.ErrExist) { // a module that is there already is a person's work
			return false, view.Failf("Cannot write "+f.File, "%v. Choose a directory you can write to, with -chdir=DIR.", err)
		}
	}
	return true, nil
}

// DevAddress is the address of "locktree dev". init writes it into the configuration if the environment names no servers.
const DevAddress = "127.0.0.1:2181"

// servers returns the servers of the environment, or the address of dev. The configuration names them, so that a reviewer sees
// them.
func servers(env stack.Environ) string {
	all := []string{DevAddress}
	if list := env.Get("ZOOKEEPER_SERVERS"); list != "" {
		all = strings.Split(list, ",")
	}
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = strconv.Quote(strings.TrimSpace(s))
	}
	return strings.Join(quoted, ", ")
}

// stackName makes a stack name from the name of a directory: stacks of different directories must not share nodes.
func stackName(dir string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(dir)), "-")
	return cmp.Or(name, "example")
}
