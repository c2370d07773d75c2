package config

import (
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns " Did you mean \"x\"?" for the nearest of the names, or "".
// At most two edits away, and fewer than half of the word: beyond that a
// suggestion is noise.
func didYouMean(given string, names []string) string {
	best, bestDistance := "", 3
	for _, name := range slices.Sorted(slices.Values(names)) {
		// The difference in length is a lower bound and free to compute.
		if diff := len(name) - len(given); diff >= bestDistance || -diff >= bestDistance {
			continue
		}
		if d := distance(given, name); d < bestDistance && 2*d < len(given) {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

// distance counts insertions, deletions, substitutions and swaps of neighbours,
// no letter being edited twice (optimal string alignment): a swap is the
// commonest slip, and Levenshtein's distance takes it for two.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			substitution := last[j]
			if a[i] != b[j] {
				substitution++
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, substitution)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// orList writes names as a sentence reads them: a, b or c.
func orList(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	}
}

// hint is didYouMean, or else the list of what there is, when it is short
// enough to be read.
func hint(given string, names []string, none string) string {
	if s := didYouMean(given, names); s != "" {
		return s
	}
	switch {
	case len(names) == 0:
		return " " + none
	case len(names) <= 12:
		return " There is " + orList(slices.Sorted(slices.Values(names))) + "."
	default:
		return ""
	}
}
