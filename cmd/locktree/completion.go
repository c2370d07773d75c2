package main

import "github.com/locktree/locktree/config"

// outputNames completes from the configuration: a shell must not wait for a server.
func (a *app) outputNames(flags *loadFlags) []string {
	cfg, _ := config.Load(a.path("."), a.options(flags))
	names := make([]string, len(cfg.Outputs))
	for i, o := range cfg.Outputs {
		names[i] = o.Name
	}
	return names
}
