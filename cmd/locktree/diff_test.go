package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLineDiff(t *testing.T) {
	var before, after []string
	for i := range 20 {
		before = append(before, fmt.Sprintf("line %d\n", i))
	}
	after = append(after, before...)
	after[2], after[17] = "two\n", "seventeen\n"
	require.Empty(t, lineDiff("a", "b", strings.Join(before, ""), strings.Join(before, "")))
	require.Equal(t, `--- a
+++ b
@@ -1,6 +1,6 @@
 line 0
 line 1
-line 2
+two
 line 3
 line 4
 line 5
@@ -15,6 +15,6 @@
 line 14
 line 15
 line 16
-line 17
+seventeen
 line 18
 line 19
`, lineDiff("a", "b", strings.Join(before, ""), strings.Join(after, "")))
	require.Equal(t, "--- a\n+++ b\n@@ -1,1 +1,1 @@\n-x\n\\ No newline at end of file\n+x\n", lineDiff("a", "b", "x", "x\n"))
}

// Whatever the texts, what is kept and removed is the old one and what is kept
// and added is the new one.
func TestDiffKeepsBothTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", ""}), 0, 12)
		a, b := lines.Draw(t, "a"), lines.Draw(t, "b")
		var before, after strings.Builder
		for _, e := range diffLines(a, b) {
			if e.op != '+' {
				before.WriteString(e.text)
			}
			if e.op != '-' {
				after.WriteString(e.text)
			}
		}
		require.Equal(t, strings.Join(a, ""), before.String())
		require.Equal(t, strings.Join(b, ""), after.String())
	})
}

func TestStackName(t *testing.T) {
	for dir, want := range map[string]string{"My Shop": "my-shop", "payments_prod": "payments-prod", "..": "example", "/": "example", "Äpfel": "pfel", "a1": "a1"} {
		require.Equal(t, want, stackName(dir))
	}
}
