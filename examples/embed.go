// Package examples holds configurations and programs that show what locktree is for. A test plans every configuration here, and
// applies all except the one in the folder policy. The code in the README is generated from the quickstart.
package examples

import "embed"

// Quickstart is the configuration the README shows and `locktree demo` applies.
//
//go:embed quickstart/locks.locktree.hcl
var Quickstart embed.FS
