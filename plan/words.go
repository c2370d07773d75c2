package plan

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sentence makes an error's text stand alone: errors start small and end open, because they may be put into others.
func Sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	s = string(unicode.ToUpper(first)) + strings.TrimSuffix(s[size:], ".")
	if !strings.HasSuffix(s, "?") {
		s += "."
	}
	return s
}

func Plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// Few lists names in a sentence: the first ones, and how many more there are.
func Few[S ~string](names []S, room int) string {
	var out []string
	for _, name := range names[:min(len(names), room)] {
		out = append(out, string(name))
	}
	return strings.Join(out, ", ") + andMore(max(len(names)-room, 0))
}
