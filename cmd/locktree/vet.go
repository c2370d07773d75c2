package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/vet"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
)

// vetting is one run of vet.
type vetting struct {
	*app
	configs, skip []string
}

func vetCommand(a *app) *cobra.Command {
	v := &vetting{app: a}
	c := &cobra.Command{
		Use:   "vet [PACKAGE...]",
		Short: "Find mistakes in the use of locks in Go programs",
		Long: "vet looks at Go packages, by default ./..., that use the library: leases that are not given back,\n" +
			"work that goes on when a lock is lost, locks that wait for each other. With -config it also compares\n" +
			"their paths with what is declared. It runs \"go vet\"; \"go vet -vettool=$(which locktree)\" is the same.\n" +
			"Test files are not looked at. Exit code: 1 if anything but advice is found.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return v.run(c, args) },
	}
	c.Flags().StringArrayVar(&v.configs, "config", nil, "compare paths with the configuration in `DIR`; name all that the packages use; variables come from the environment")
	c.Flags().StringSliceVar(&v.skip, "skip", nil, "do not look for these `FINDINGS`: unwatched,token")
	a.jsonFlag(c, documentJSON, "print the verdict and the findings as one JSON object, as validate does")
	return c
}

func (v *vetting) run(c *cobra.Command, packages []string) error {
	args := []string{"vet", "-json", "-advice"}
	for _, name := range v.skip {
		if vet.Titles[name] == "" {
			return usage(c, "Unknown finding", "vet finds nothing that is called %q.%s", name, plan.DidYouMean(name, slices.Sorted(maps.Keys(vet.Titles))))
		}
		args = append(args, "-"+name+"=false")
	}
	for _, dir := range v.configs {
		abs, err := filepath.Abs(v.path(dir))
		if err != nil {
			return err
		}
		cfg, diags := config.Load(abs, v.options(&loadFlags{}))
		v.view().Diagnostics(diags, cfg.Sources)
		if diags.HasErrors() {
			return exitWith(exitError)
		}
		if len(cfg.Ensembles) == 0 {
			return view.Failf("No configuration", "The directory %s declares no ensemble, so there is nothing to compare paths with. Name another one with -config.", dir)
		}
		args = append(args, "-config="+abs)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	out, err := v.goVet(c.Context(), append(append(args, "-vettool="+self), packages...))
	if err != nil {
		return err
	}
	found, err := v.findings(out)
	if err != nil {
		return err
	}
	v.show(found)
	if found.Diagnostics.HasErrors() {
		return exitWith(exitError)
	}
	return nil
}

// goVet runs the go command, which loads the packages and runs this program for each, see vetUnit.
func (v *vetting) goVet(ctx context.Context, args []string) ([]byte, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = v.dir, v.env, &out, &problems
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, view.Failf("No go command", "vet runs \"go vet\", and there is no go in PATH. Install Go from https://go.dev/dl, or add it to PATH.")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, view.Failf("The packages cannot be looked at", "go vet: %v.\n\n%s", err, strings.TrimSpace(problems.String()))
	}
	return out.Bytes(), nil
}

// vetFinding is what the program prints for a finding under "go vet -json".
type vetFinding struct {
	Category, Posn, Message string
}

func (v *vetting) findings(out []byte) (found view.Vetted, err error) {
	found.Files, found.Compared = map[string]*hcl.File{}, len(v.configs) > 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var packages map[string]map[string]json.RawMessage
		if err := dec.Decode(&packages); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return found, fmt.Errorf("what go vet printed: %w", err)
		}
		for path, analyzers := range packages {
			for name, raw := range analyzers {
				var all []vetFinding
				if err := json.Unmarshal(raw, &all); err != nil {
					return found, fmt.Errorf("%s of %s: %s", name, path, raw)
				}
				for _, f := range all {
					found.Diagnostics = append(found.Diagnostics, v.diagnostic(name, f, found.Files))
				}
			}
		}
	}
	slices.SortStableFunc(found.Diagnostics, func(a, b *hcl.Diagnostic) int {
		if c := strings.Compare(a.Subject.Filename, b.Subject.Filename); c != 0 {
			return c
		}
		return a.Subject.Start.Byte - b.Subject.Start.Byte
	})
	return found, nil
}

// position is a file, and perhaps a line and a column.
var position = regexp.MustCompile(`^(.*?)(?::(\d+))?(?::(\d+))?$`)

func (v *vetting) diagnostic(name string, f vetFinding, files map[string]*hcl.File) *hcl.Diagnostic {
	d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: vet.Titles[name], Detail: f.Message + " [" + name + "]"}
	if f.Category == vet.Advice {
		d.Severity = hcl.DiagWarning
	}
	posn := position.FindStringSubmatch(f.Posn)
	file := posn[1]
	line, _ := strconv.Atoi(posn[2])
	column, _ := strconv.Atoi(posn[3])
	if base, err := filepath.Abs(v.path(".")); err == nil {
		if rel, err := filepath.Rel(base, file); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
	}
	d.Subject = &hcl.Range{Filename: file, Start: hcl.Pos{Line: line, Column: column}, End: hcl.Pos{Line: line, Column: column}}
	if files[file] == nil {
		src, err := os.ReadFile(v.path(file))
		if err != nil {
			return d
		}
		files[file] = &hcl.File{Bytes: src}
	}
	at := 0
	for i, text := range bytes.SplitAfter(files[file].Bytes, []byte("\n")) {
		if i == line-1 {
			rest := len(bytes.TrimRight(text, "\r\n"))
			d.Subject.Start.Byte, d.Subject.End.Byte, d.Subject.End.Column = at+min(column-1, rest), at+rest, rest+1
		}
		at += len(text)
	}
	return d
}

// declaredIn is what the configurations in some directories declare.
func declaredIn(dirs []string) (vet.Declared, error) {
	all := vet.Declared{}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("-config=%s: go vet runs in the directory of each package, so the path must be absolute", dir)
		}
		cfg, diags := config.Load(dir, config.Options{Environ: os.Environ(), Version: version()})
		if diags.HasErrors() {
			return nil, fmt.Errorf("-config=%s: %w", dir, diags)
		}
		for _, e := range cfg.Ensembles {
			for _, n := range e.Tree.Nodes {
				if n.Payload != nil {
					all[n.Path] = append(all[n.Path], vet.Declaration{Stack: e.Tree.Stack, Addr: n.Addr, Params: n.Payload.Params})
				}
			}
		}
	}
	return all, nil
}
