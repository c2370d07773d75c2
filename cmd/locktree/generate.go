package main

import (
	"bytes"
	"errors"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/generate"
	"github.com/locktree/locktree/plan"
)

var languages = []string{"go", "java", "python"}

// generator is one run of generate.
type generator struct {
	*app
	out, pkg, ensemble string
	check              bool
}

func generateCommand(a *app) *cobra.Command {
	g := &generator{app: a}
	c := &cobra.Command{
		Use:        "generate go | java | python",
		SuggestFor: []string{"gen", "codegen"},
		Short:      "Write the names of the locks as code",
		Long: "generate writes code with which programs name the locks of the stack: for Go, handles of the\n" +
			"library's types; for Java and Python, paths and the classes of Curator and kazoo. The root is\n" +
			"an argument of that code, and variables have their defaults: no value that is given to them\n" +
			"elsewhere is used, so that the code is right wherever the configuration is applied.\n" +
			"Exit code: 3 with -check if the file is not what would be generated.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(c, "Which language", "Name one: go, java or python.")
			}
			return atMost(1)(c, args)
		},
		ValidArgsFunction: completes(func() []string { return languages }),
		RunE:              func(c *cobra.Command, args []string) error { return g.run(c, args[0]) },
	}
	c.Flags().StringVar(&g.out, "out", "", "write `FILE` instead of standard output")
	c.Flags().BoolVar(&g.check, "check", false, "write nothing; exit with 3 if the file of -out is not up to date")
	c.Flags().StringVar(&g.pkg, "package", "", "`NAME` of the package; for Go it is that of the directory of -out, or locks")
	c.Flags().StringVar(&g.ensemble, "ensemble", "", "`NAME` of the ensemble, for Java and Python, if there are several")
	return c
}

func (g *generator) run(c *cobra.Command, lang string) error {
	if g.check && g.out == "" {
		return usage(c, "The -check option needs a file", "Name the file to check with -out=FILE.")
	}
	code, diags := config.LoadCode(g.path("."), g.options(&loadFlags{}))
	if len(code.Ensembles) == 0 && !diags.HasErrors() {
		diags = append(diags, g.noEnsemble())
	}
	g.view().Diagnostics(diags, code.Sources)
	if diags.HasErrors() {
		return exitWith(exitError)
	}
	source, err := g.source(c, lang, code)
	if err != nil {
		return err
	}
	if g.out == "" {
		_, err := g.stdout.Write(source)
		return err
	}
	return g.write(lang, source)
}

var javaPackage = regexp.MustCompile(`^[a-zA-Z_]\w*(\.[a-zA-Z_]\w*)*$`)

func (g *generator) source(c *cobra.Command, lang string, code *config.Code) ([]byte, error) {
	class := strings.TrimSuffix(filepath.Base(g.out), ".java")
	switch {
	case lang == "go" && g.ensemble != "", lang == "python" && g.pkg != "":
		return nil, usage(c, "Bad flag", "-ensemble is for Java and Python, and -package for Go and Java.")
	case lang == "go":
		if g.pkg == "" {
			g.pkg = g.packageOf()
		}
		if !token.IsIdentifier(g.pkg) || g.pkg == "_" {
			return nil, usage(c, "Not a package", "%q cannot be the name of a package. Choose another one with -package=NAME.", g.pkg)
		}
		return generate.Go(code, g.pkg)
	case lang != "java" && lang != "python":
		return nil, usage(c, "Unknown language", "No code is generated for %q.%s", lang, plan.DidYouMean(lang, languages))
	case lang == "java" && g.out != "" && !token.IsIdentifier(class):
		return nil, usage(c, "Not a class", "%q cannot be the name of a class. Java wants the file of -out to be called as its class.", class)
	case lang == "java" && g.pkg != "" && !javaPackage.MatchString(g.pkg):
		return nil, usage(c, "Not a package", "%q cannot be the name of a package. Choose another one with -package=NAME.", g.pkg)
	}
	for _, e := range code.Ensembles {
		switch {
		case e.Name != g.ensemble && (g.ensemble != "" || len(code.Ensembles) > 1):
		case lang == "java" && g.out == "":
			return generate.Java(code, e, g.pkg, "Locks"), nil
		case lang == "java":
			return generate.Java(code, e, g.pkg, class), nil
		default:
			return generate.Python(code, e), nil
		}
	}
	var names []string
	for _, e := range code.Ensembles {
		names = append(names, e.Name)
	}
	return nil, view.Failf("Which ensemble", "-ensemble=%s: the ensembles are %s. Name one of them.", g.ensemble, strings.Join(names, ", "))
}

// packageOf is the name of the directory of the file, if a package can have it.
func (g *generator) packageOf() string {
	abs, err := filepath.Abs(g.path(g.out))
	if name := filepath.Base(filepath.Dir(abs)); g.out != "" && err == nil && token.IsIdentifier(name) {
		return name
	}
	return "locks"
}

// write writes the file, unless it is up to date. A file that was not generated is left alone.
func (g *generator) write(lang string, source []byte) error {
	was, err := os.ReadFile(g.path(g.out))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return view.Failf("Cannot read "+g.out, "%v.", err)
	case err == nil && bytes.Equal(was, source):
		return nil
	case g.check:
		return &codeError{exitFmtDiff, view.Failf("Generated code is out of date", "%s is not what the configuration generates. Run: locktree generate %s -out=%s", g.out, lang, g.out)}
	case err == nil && !bytes.Contains(was, []byte("Code generated by \"locktree generate ")):
		return view.Failf("Not a generated file", "%s exists, and was not generated by locktree. Delete it, or name another file.", g.out)
	}
	if err := os.MkdirAll(filepath.Dir(g.path(g.out)), 0o777); err != nil {
		return view.Failf("Cannot write "+g.out, "%v.", err)
	}
	if err := replaceFile(g.path(g.out), 0o644, func(w io.Writer) error { _, err := w.Write(source); return err }); err != nil {
		return view.Failf("Cannot write "+g.out, "%v. The file is as it was.", err)
	}
	return nil
}
