package explain

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns ` Did you mean "x"?`, with the space, if [Nearest] finds x, or "".
func DidYouMean(given string, names []string) string {
	if best := Nearest(given, names); best != "" {
		return fmt.Sprintf(" Did you mean %q?", best)
	}
	return ""
}

// Nearest returns the name most similar to the given one, or "". It is at most two edits away, and fewer than half the length of
// the word: beyond that a suggestion is noise. If several are equally near it is the first by name.
func Nearest(given string, names []string) string {
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
	return best
}

// distance counts insertions, deletions, substitutions and swaps of neighbours, and
// edits no letter twice (optimal string alignment). A swap is the most common slip, and
// Levenshtein's distance counts it as two.
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

// NearestAddr suggests what was meant by an unknown address: a key if it names a block with for_each, or the only known address
// that ends with it if its namespaces were left out. If there is neither, it suggests a similar address.
func NearestAddr[Addr interface {
	~string
	Block() Addr
}](given string, addrs []Addr) string {
	var names, ends, keys []string
	for _, a := range addrs {
		names = append(names, string(a))
		switch {
		case strings.HasSuffix(string(a), "."+given):
			ends = append(ends, string(a))
		case string(a.Block()) == given:
			keys = append(keys, string(a))
		}
	}
	if slices.Sort(keys); len(keys) > 0 {
		return fmt.Sprintf(" It is declared with for_each: name one of its %d keys, as in '%s'.", len(keys), keys[0])
	}
	if near := DidYouMean(given, names); near != "" {
		return near
	}
	slices.Sort(ends)
	if ends = slices.Compact(ends); len(ends) != 1 {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", ends[0])
}
