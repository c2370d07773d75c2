package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

func initCommand(a *app) *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to start from",
		Long: "init writes a commented configuration into an empty directory. It never changes existing\n" +
			"files. Then it checks whether the ensembles can be reached. No other command needs it.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error { return a.init(c.Context(), &flags) },
	}
	flags.register(c)
	c.Flags().Bool("input", true, "accepted for compatibility; init never asks")
	return c
}

func (a *app) init(ctx context.Context, flags *loadFlags) error {
	wrote, err := a.scaffold()
	if err != nil {
		return err
	}
	cfg, err := a.load(flags)
	if err != nil {
		return err
	}
	if wrote {
		fmt.Fprintf(a.stdout, "Wrote %s: a namespace with three locks to start from. Change it as you like.\n", starterName)
	} else {
		fmt.Fprintln(a.stdout, "This directory already has a configuration. Nothing was written.")
	}
	for _, e := range cfg.Ensembles {
		a.reach(ctx, e)
	}
	fmt.Fprintln(a.stdout, "\nlocktree has been successfully initialized! Next, try \"locktree plan\".")
	return nil
}

// reach says whether an ensemble can be reached. It is no error if not: the servers may
// come after the configuration.
func (a *app) reach(ctx context.Context, e *config.Ensemble) {
	name := fmt.Sprintf("Ensemble %q (%s)", e.Name, strings.Join(e.Servers, ","))
	client, err := a.dial(ctx, e, true)
	if err != nil {
		detail := view.Explain(err)[0]
		fmt.Fprintf(a.stdout, "%s does not answer yet. %s\nFor a first try, \"locktree dev\" serves one on this machine.\n", name, view.CleanLines(detail.Detail))
		return
	}
	_ = client.Close()
	fmt.Fprintf(a.stdout, "%s is reachable.\n", name)
}

//go:embed starter.locktree.hcl
var starter string

// starterName is the file init writes.
const starterName = "main.locktree.hcl"

// scaffold writes the starter configuration where there is none at all.
func (a *app) scaffold() (wrote bool, err error) {
	dir := a.path(".")
	for _, pattern := range []string{"*.locktree.hcl", "*.locktree.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			return false, err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	text := strings.NewReplacer("STACK", stackName(filepath.Base(abs)), "SERVERS", a.starterServers()).Replace(starter)
	err = writeNew(filepath.Join(dir, starterName), 0o644, []byte(text))
	if errors.Is(err, fs.ErrExist) {
		return false, nil // another program created it first
	}
	if err != nil {
		return false, view.Failf("Cannot write "+starterName, "%v. Choose a directory you can write to, with -chdir=DIR.", err)
	}
	return true, nil
}

// starterServers are those of the environment, or the address of dev: a configuration that
// names its servers can be reviewed.
func (a *app) starterServers() string {
	servers := []string{devAddress}
	if list := a.env.get("ZOOKEEPER_SERVERS"); list != "" {
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
