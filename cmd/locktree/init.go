package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/spf13/cobra"
)

//go:embed starter.locktree.hcl
var starter string

// starterName is the file init writes.
const starterName = "main.locktree.hcl"

func initCommand(a *app) *cobra.Command {
	var flags loadFlags
	var input bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to start from",
		Long: "init writes a commented configuration into an empty directory. It never changes a file\n" +
			"that is there. Then it says whether the ensembles answer. No other command needs it.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.init(c.Context(), &flags) },
	}
	flags.register(c)
	c.Flags().BoolVar(&input, "input", true, "ask for input; init never does")
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

// reach says whether an ensemble answers. That it does not is no failure here:
// the configuration comes first, the servers may come later.
func (a *app) reach(ctx context.Context, e *config.Ensemble) {
	name := fmt.Sprintf("Ensemble %q (%s)", e.Name, strings.Join(a.servers(e), ","))
	client, err := a.dial(ctx, e, true)
	if err != nil {
		detail := view.Explain(err)[0]
		fmt.Fprintf(a.stdout, "%s does not answer yet: %s\nFor a first try, \"locktree dev\" serves one on this machine.\n", name, detail.Detail)
		return
	}
	_ = client.Close()
	fmt.Fprintf(a.stdout, "%s is reachable.\n", name)
}

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
	f, err := os.OpenFile(filepath.Join(dir, starterName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil // somebody was faster
	}
	if err != nil {
		return false, view.Failf("Cannot write "+starterName, "%v.", err)
	}
	_, err = f.WriteString(text)
	return true, errors.Join(err, f.Close())
}

// starterServers writes the servers of the environment into the configuration,
// or where dev serves: a configuration that says where it goes can be reviewed.
func (a *app) starterServers() string {
	servers := a.servers(&config.Ensemble{})
	if len(servers) == 0 {
		servers = []string{devAddress}
	}
	quoted := make([]string, len(servers))
	for i, s := range servers {
		quoted[i] = strconv.Quote(strings.TrimSpace(s))
	}
	return strings.Join(quoted, ", ")
}

// stackName makes a name of a directory's: stacks of different directories must
// not take each other's nodes for their own.
func stackName(dir string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '-'
		}
	}, dir), "-")
	if name == "" {
		return "example"
	}
	return name
}
