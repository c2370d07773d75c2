package config

import (
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns " Did you mean \"x\"?" for the nearest of the names, or "".
// Nearest is the Levenshtein distance, at most two edits and fewer than the word
// has letters: beyond that a suggestion is noise.
func didYouMean(given string, names []string) string {
	best, bestDistance := "", 3
	for _, name := range slices.Sorted(slices.Values(names)) {
		// The difference in length is a lower bound and free to compute.
		if diff := len(name) - len(given); diff >= bestDistance || -diff >= bestDistance {
			continue
		}
		if d := distance(given, name); d < bestDistance && d < len(given) {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, substitution)
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
