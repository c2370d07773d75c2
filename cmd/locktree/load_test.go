package main

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"
)

// -compact-warnings leaves the summaries, and takes nothing from an error: load
// compacts only where there is none.
func TestCompactedWarnings(t *testing.T) {
	long := &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Odd", Detail: "At length.", Subject: &hcl.Range{Filename: "a"}}
	out := compacted(hcl.Diagnostics{long})
	require.Len(t, out, 1)
	require.Equal(t, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Odd"}, out[0])
	require.Equal(t, "At length.", long.Detail, "the original is shown elsewhere")
}
