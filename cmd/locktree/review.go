package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// reviewFlags are what commands write for those who review a change before it is applied.
type reviewFlags struct {
	markdown    bool // -summary=markdown, and show -markdown
	annotations bool // -annotations=github
}

// summaryFlag is for commands that plan.
func (r *reviewFlags) summaryFlag(c *cobra.Command) {
	oneOf(c, "summary", "markdown", "print a summary in `MARKDOWN` instead, for the comment of a pull request or the summary of a job", &r.markdown)
}

// annotationsFlag is for commands that read the configuration.
func (r *reviewFlags) annotationsFlag(c *cobra.Command) {
	oneOf(c, "annotations", "github", "write a workflow command of `GITHUB` Actions for each problem and each change that has a line", &r.annotations)
}

// oneOf is a flag that has one value today.
func oneOf(c *cobra.Command, name, value, help string, on *bool) {
	c.Flags().Func(name, help, func(text string) error {
		if text != value {
			return fmt.Errorf("must be %s", value)
		}
		*on = true
		return nil
	})
	_ = c.RegisterFlagCompletionFunc(name, completes(func() []string { return []string{value} })) // it fails for unknown flags only
}
