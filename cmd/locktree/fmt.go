package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/disk"
)

func fmtCommand(a *app) *cobra.Command {
	f := disk.Formatter{Out: a.Stdout}
	c := &cobra.Command{
		Use:        "fmt [FILE | DIRECTORY | -]...",
		SuggestFor: []string{"format"},
		Short:      "Rewrite configuration files to the canonical style",
		RunE: func(_ *cobra.Command, args []string) error {
			f.Loader = a.loader()
			return f.Run(args)
		},
	}
	c.Flags().BoolVar(&f.List, "list", true, "list the files that changed")
	c.Flags().BoolVar(&f.Write, "write", true, "write the files; -write=false only lists them")
	c.Flags().BoolVar(&f.Check, "check", false, "write nothing; exit with 3 if a file would change")
	c.Flags().BoolVar(&f.Diff, "diff", false, "print what changes, as diff -u does")
	c.Flags().BoolVar(&f.Recursive, "recursive", false, "include the directories below")
	return c
}
