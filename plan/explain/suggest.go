package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// DidYouMean returns ` Did you mean "x"?`, with the space, if [Nearest] finds x, or "".
func DidYouMean(given string, names []string) string {
	if best := Nearest(given, names); best != "" {
		return fmt.Sprintf(" Did you mean %q?", best)
	}
	return ""
}

// Nearest returns the name most similar to the given one, or "". A letter too many or too few costs 2, a wrong one 3, and two
// swapped ones 4. The cost is at most 6, and at most the length of the given name. Among equally near names, the first in order wins.
func Nearest(given string, names []string) string {
	best, most := "", min(6, len(given))
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := levenshtein.Distance(given, name, edits); d <= most {
			best, most = name, d-1
		}
	}
	return best
}

var edits = levenshtein.NewParams().InsCost(2).DelCost(2).SubCost(3)

// NearestAddr suggests what was meant by an unknown address. If the address names a block with for_each, it suggests a key. If
// not, it suggests a similar address. If no address is similar, it suggests the only known address that ends with the given one,
// whose namespaces may have been left out.
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
