package main

import (
	"cmp"
	"fmt"
	"go/token"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/config/generate"
	"github.com/locktree/locktree/plan/explain"
)

// generator is one run of generate.
type generator struct {
	app      *app
	out, pkg string
	check    bool
}

func generateCommand(a *app) *cobra.Command {
	g := &generator{app: a}
	c := &cobra.Command{
		Use:        "generate go",
		SuggestFor: []string{"gen", "codegen"},
		Short:      "Write the names of the locks as code",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(c, "Which language", "Name it: locktree generate go")
			}
			return atMost(1)(c, args)
		},
		ValidArgsFunction: completes(func() []string { return []string{"go"} }),
		RunE:              func(c *cobra.Command, args []string) error { return g.run(c, args[0]) },
	}
	c.Flags().StringVar(&g.out, "out", "", "write `FILE` instead of standard output")
	c.Flags().BoolVar(&g.check, "check", false, "write nothing; exit with 3 if the file of -out is not up to date")
	c.Flags().StringVar(&g.pkg, "package", "", "the `NAME` of the package; by default the name of the directory of -out, or locks")
	return c
}

func (g *generator) run(c *cobra.Command, lang string) error {
	if lang != "go" {
		advice := cmp.Or(help.Former["generate "+lang], strings.TrimSpace(explain.DidYouMean(lang, []string{"go"})))
		return usage(c, "Unknown language", "%s", strings.TrimSpace(fmt.Sprintf("No code is generated for %q. %s", lang, advice)))
	}
	if g.check && g.out == "" {
		return usage(c, "The -check option needs a file", "Name the file to check with -out=FILE.")
	}
	if g.pkg == "" {
		g.pkg = disk.Package(g.app.loader(), g.out)
	}
	if !token.IsIdentifier(g.pkg) || g.pkg == "_" {
		return usage(c, "Not a package", "%q cannot be the name of a package. Choose another one with -package=NAME.", g.pkg)
	}
	code, diags := generate.Load(g.app.loader().Path("."), version())
	if len(code.Ensembles) == 0 && !diags.HasErrors() {
		diags = append(diags, g.app.loader().NoEnsemble())
	}
	g.app.View().Diagnostics(diags, code.Sources)
	if diags.HasErrors() {
		return exit.With(exit.Failed)
	}
	source, err := generate.Go(code, g.pkg)
	if err != nil {
		return err
	}
	if g.out == "" {
		_, err := g.app.Stdout.Write(source)
		return err
	}
	return disk.Generated(g.app.loader(), g.out, source, g.check)
}
