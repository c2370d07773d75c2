// Package docs holds the pages that the program itself speaks from.
package docs

import _ "embed"

// Vet is the page about mistakes in programs: a section for each finding of "locktree vet", under its name.
//
//go:embed vet.md
var Vet string
