package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

func initCommand(a *app) *cobra.Command {
	var flags loadFlags
	template := "start"
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to start from",
		Long: "init writes a commented configuration into an empty directory. It never changes existing\n" +
			"files. Then it checks whether the ensembles can be reached. No other command needs it.\n\n" +
			"-template=production writes one for a shared ensemble: TLS, administrators, readers for CI and\n" +
			"operators, and a module with the locks of each team.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			starter := templates[template]
			if starter == nil {
				return usage(c, "Bad flag", "-template=%s: must be start or production.", template)
			}
			return a.init(c.Context(), &flags, starter)
		},
	}
	flags.register(c)
	c.Flags().StringVar(&template, "template", template, "what to write: start or production")
	c.Flags().Bool("input", true, "accepted for compatibility; init never asks")
	return c
}

func (a *app) init(ctx context.Context, flags *loadFlags, template []starterFile) error {
	wrote, err := a.scaffold(template)
	if err != nil {
		return err
	}
	cfg, err := a.loader().Load(flags.inputs)
	if err != nil {
		return err
	}
	for _, f := range template {
		if wrote {
			fmt.Fprintf(a.Stdout, "Wrote %s: %s. Change it as you like.\n", f.name, f.about)
		}
	}
	if !wrote {
		fmt.Fprintln(a.Stdout, "This directory already has a configuration. Nothing was written.")
	}
	for _, e := range cfg.Ensembles {
		if a.reach(ctx, e); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Fprintln(a.Stdout, "\nlocktree has been successfully initialized! Next, try \"locktree plan\".")
	return nil
}

// reach says whether an ensemble can be reached. It is no error if not: the servers may
// come after the configuration.
func (a *app) reach(ctx context.Context, e *config.Ensemble) {
	name := view.Line(fmt.Sprintf("Ensemble %q (%s)", e.Name, strings.Join(e.Servers, ",")))
	client, err := a.loader().Connect(ctx, e, true)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		detail := view.Explain(err)[0]
		if detail.Detail == "" { // the library's own words
			fmt.Fprintf(a.Stdout, "%s cannot be used. %s\n", name, view.Brief(err))
			return
		}
		fmt.Fprintf(a.Stdout, "%s does not answer yet. %s\nFor a first try, \"locktree dev\" serves one on this machine.\n", name, view.CleanLines(detail.Detail))
		return
	}
	_ = client.Close()
	fmt.Fprintf(a.Stdout, "%s is reachable.\n", name)
}

// starterFile is a file that init writes, with STACK and SERVERS to be filled in.
type starterFile struct{ name, about, text string }

// starterName is the file that every template has, and init writes last: where it is, the others are.
const starterName = "main.locktree.hcl"

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

// templates are what init -template writes.
var templates = map[string][]starterFile{
	"start": {{starterName, "a namespace with three locks to start from", starter}},
	"production": {
		{"teams/payments/locks.locktree.hcl", "the locks of a team", productionPayments},
		{"teams/search/locks.locktree.hcl", "the locks of another team", productionSearch},
		{starterName, "the ensemble with TLS, who may apply, plan and use which locks, and a module per team", production},
	},
}

// scaffold writes a template where there is no configuration at all.
func (a *app) scaffold(template []starterFile) (wrote bool, err error) {
	dir := a.loader().Path(".")
	for _, pattern := range []string{"*.locktree.hcl", "*.locktree.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			return false, err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	fill := strings.NewReplacer("STACK", stackName(filepath.Base(abs)), "SERVERS", a.starterServers())
	for _, f := range template {
		path := filepath.Join(dir, filepath.FromSlash(f.name))
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = disk.Create(path, 0o644, []byte(fill.Replace(f.text)))
		}
		if errors.Is(err, fs.ErrExist) && f.name == starterName {
			return false, nil // another program created it first
		}
		if err != nil && !errors.Is(err, fs.ErrExist) { // a module that is there already is somebody's
			return false, view.Failf("Cannot write "+f.name, "%v. Choose a directory you can write to, with -chdir=DIR.", err)
		}
	}
	return true, nil
}

// starterServers are those of the environment, or the address of dev: a configuration that
// names its servers can be reviewed.
func (a *app) starterServers() string {
	servers := []string{devAddress}
	if list := a.Env.Get("ZOOKEEPER_SERVERS"); list != "" {
		servers = strings.Split(list, ",")
	}
	quoted := make([]string, len(servers))
	for i, s := range servers {
		quoted[i] = strconv.Quote(strings.TrimSpace(s))
	}
	return strings.Join(quoted, ", ")
}

// stackName makes a stack name from that of a directory: stacks of different directories
// must not share nodes.
func stackName(dir string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(dir)), "-")
	return cmp.Or(name, "example")
}
