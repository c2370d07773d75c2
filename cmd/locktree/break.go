package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/change"
)

func breakCommand(a *app) *cobra.Command {
	return evictCommand(a, &change.Eviction{Breaks: true}, &cobra.Command{
		Use:        "break {ADDRESS | PATH}",
		SuggestFor: []string{"evict", "kill", "unlock", "force-unlock", "steal"},
		Short:      "Take a lock away from one holder",
	})
}
