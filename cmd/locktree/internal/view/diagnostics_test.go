package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"
)

// A name that was mistyped fifty times was fifty errors of the same words.
func TestDiagnosticsOfTheSameWordsAreFolded(t *testing.T) {
	file := &hcl.File{Bytes: []byte(strings.Repeat("acl = acl.opn\n", 50))}
	var diags hcl.Diagnostics
	for i := range 50 {
		at := hcl.Range{Filename: "a.locktree.hcl", Start: hcl.Pos{Line: i + 1, Column: 7, Byte: i*14 + 6}, End: hcl.Pos{Line: i + 1, Column: 14, Byte: i*14 + 13}}
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown reference", Detail: "There is no acl.opn.", Subject: &at},
			&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Other", Detail: fmt.Sprint("Differs: ", i), Subject: &at})
	}
	v, _, err := capture(nil)
	v.Diagnostics(diags, map[string]*hcl.File{"a.locktree.hcl": file})
	require.Equal(t, 3, strings.Count(err.String(), "Error: Unknown reference"))
	require.Equal(t, 50, strings.Count(err.String(), "Warning: Other"))
	require.Contains(t, err.String(), "There is no acl.opn.\n\n47 more like this, the next on a.locktree.hcl line 4.\n")
	v, _, err = capture(nil)
	v.Diagnostics(append(diags[:4:4], diags[5]), nil)
	require.Equal(t, 2, strings.Count(err.String(), "Error: Unknown reference"))
	require.NotContains(t, err.String(), "more like this")
}
