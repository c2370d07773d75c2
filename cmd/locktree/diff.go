package main

import (
	"fmt"
	"strings"
)

// lineDiff is a unified diff with three lines of context, "" for equal texts.
// Configuration files are small: the quadratic table of the longest common
// subsequence is cheaper than a dependency.
func lineDiff(oldName, newName, before, after string) string {
	edits := diffLines(strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n"))
	var b strings.Builder
	for _, h := range hunks(edits, 3) {
		if b.Len() == 0 {
			fmt.Fprintf(&b, "--- %s\n+++ %s\n", oldName, newName)
		}
		writeHunk(&b, edits, h)
	}
	return b.String()
}

// edit is one line kept (' '), removed ('-') or added ('+').
type edit struct {
	op   byte
	text string
}

func diffLines(a, b []string) []edit {
	common := make([][]int, len(a)+1) // common[i][j]: longest common subsequence of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}

// hunks are the ranges of edits that hold changes and their context.
func hunks(edits []edit, context int) [][2]int {
	var out [][2]int
	for i, e := range edits {
		if e.op == ' ' {
			continue
		}
		from, to := max(0, i-context), min(len(edits), i+context+1)
		if n := len(out); n > 0 && from <= out[n-1][1] {
			out[n-1][1] = to
		} else {
			out = append(out, [2]int{from, to})
		}
	}
	return out
}

func writeHunk(b *strings.Builder, edits []edit, h [2]int) {
	count := func(es []edit, skip byte) (n int) {
		for _, e := range es {
			if e.op != skip && e.text != "" {
				n++
			}
		}
		return n
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", count(edits[:h[0]], '+')+1, count(edits[h[0]:h[1]], '+'),
		count(edits[:h[0]], '-')+1, count(edits[h[0]:h[1]], '-'))
	for _, e := range edits[h[0]:h[1]] {
		if e.text == "" { // after the last newline there is no line
			continue
		}
		fmt.Fprintf(b, "%c%s", e.op, e.text)
		if !strings.HasSuffix(e.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
