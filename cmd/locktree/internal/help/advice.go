package help

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan/explain"
)

// Words of people who know Terraform, and what to type here instead.

// nothingToFetch answers commands and flags about providers and backends.
const nothingToFetch = "There are no providers, backends or registries here, so there is nothing to fetch or to configure."

const stateIsShown = "\"locktree show\" shows what the stack has in ZooKeeper, with -json as one document. A moved block says that something has a " +
	"new address, and a removed block with lifecycle { destroy = false } lets it go."

var terraformCommands = map[string]string{
	"force-unlock": "The lock of an apply ends with that apply, however it ends: wait for it with -lock-timeout=2m.",
	"get":          nothingToFetch, "providers": nothingToFetch, "login": nothingToFetch, "logout": nothingToFetch, "cloud": nothingToFetch,
	"refresh":   "Every plan reads the live tree and shows what was changed by hand.",
	"taint":     "Plan and apply with -replace=ADDRESS.",
	"untaint":   "Nothing is marked for replacement. Leave -replace out.",
	"workspace": "There are no workspaces. Make the stack or the root a variable, and set it with -var-file.",
	"graph":     "\"locktree status\" shows the tree.",
	"metadata":  "docs/language.md lists the functions.",
	"console":   "Declare an output, and plan: it shows the value.",
	"state":     stateIsShown,
}

var terraformFlags = map[string]string{
	"parallelism":         "locktree always works in parallel where it can. Leave it out.",
	"refresh":             "Every plan reads the live tree. Leave it out.",
	"refresh-only":        "Every plan shows what was changed by hand. Leave it out.",
	"lock":                "An apply always takes its lock, which ends with its session. Leave it out, or use -lock-timeout.",
	"state":               "The state is in ZooKeeper. Leave it out.",
	"state-out":           "The state is in ZooKeeper. Leave it out.",
	"backup":              "The state is in ZooKeeper. Leave it out.",
	"upgrade":             nothingToFetch,
	"backend":             nothingToFetch,
	"backend-config":      nothingToFetch,
	"reconfigure":         nothingToFetch,
	"migrate-state":       nothingToFetch,
	"plugin-dir":          nothingToFetch,
	"get":                 nothingToFetch,
	"lockfile":            nothingToFetch,
	"generate-config-out": "\"locktree import -from PATH -generate FILE\" writes the configuration of what is there.",
	"compact-warnings":    "Equal warnings are shown once already. Leave it out.",
	"force":               "-auto-approve skips the question. Only -force-break=ADDRESS removes a lock in use.",
}

// UnknownCommand says what to type instead of a command that does not exist. The advice may be about a subcommand.
func UnknownCommand(c *cobra.Command, args []string) error {
	path := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ") // "completion " of a subcommand
	name, advice := args[0], ""
	for n := min(2, len(args)); n > 0 && advice == ""; n-- {
		name = strings.Join(args[:n], " ")
		advice = cmp.Or(Former[path+name], terraformCommands[path+name])
	}
	if near := nearest(c, name); advice == "" && near != "" {
		advice = fmt.Sprintf("Did you mean \"%s %s\"?", c.CommandPath(), near)
	}
	said := strings.TrimSpace(fmt.Sprintf("There is no command %q. %s", path+name, advice))
	return view.Failf("Unknown command", "%s\n\nFor all commands and topics, run: %s -help", said, c.CommandPath())
}

// nearest returns the subcommand or topic that name means, abbreviates or resembles; or "".
func nearest(c *cobra.Command, name string) string {
	var names []string
	begins, shown := "", map[string]string{}
	for _, sub := range c.Commands() {
		names, shown[sub.Name()] = append(names, sub.Name()), sub.Name()
		if sub.IsAdditionalHelpTopicCommand() {
			shown[sub.Name()] = "help " + sub.Name()
		}
		if slices.Contains(sub.SuggestFor, name) {
			return shown[sub.Name()]
		}
		if begins == "" && strings.HasPrefix(sub.Name(), name) {
			begins = sub.Name()
		}
	}
	return shown[cmp.Or(begins, explain.Nearest(name, names))]
}

// FlagText says what is wrong with a flag, in the spelling people use, and names the most similar flag.
func FlagText(c *cobra.Command, err error) string {
	text := strings.ReplaceAll(err.Error(), "--", "-") + "."
	text = strings.ToUpper(text[:1]) + text[1:]
	if strings.Contains(text, "missing unit in duration") {
		text += " Write it with its unit, such as 90s."
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return text
	}
	name := unknown.GetSpecifiedName()
	if advice := cmp.Or(formerFlags[name], terraformFlags[name]); advice != "" {
		return text + " " + advice
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "-"+f.Name) })
	if best := explain.Nearest("-"+name, names); best != "" {
		text += " Did you mean " + best + "?"
	}
	return text
}
