package config

import (
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
)

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

// hint is [plan.DidYouMean], or else the list of what there is, when it is short
// enough to be read.
func hint(given string, names []string, none string) string {
	if s := plan.DidYouMean(given, names); s != "" {
		return s
	}
	switch {
	case len(names) == 0:
		return " " + none
	case len(names) <= 12:
		return " Expected " + orList(slices.Sorted(slices.Values(names))) + "."
	default:
		return ""
	}
}
