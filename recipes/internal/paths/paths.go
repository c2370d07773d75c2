// Package paths has the rules of ZooKeeper's servers for paths, so that a client can say what is wrong with a path.
package paths

import (
	"fmt"
	"unicode/utf8"
)

// Bad says what is wrong with a path, or returns "". The rules are those of PathUtils.validatePath in the servers, which answer
// only "bad arguments". The path of a sequential create may end with a slash: the number is then the whole name.
func Bad(path string, sequential bool) string {
	switch {
	case path == "" || path[0] != '/':
		return "a path begins with /"
	case path == "/":
		return ""
	case !utf8.ValidString(path):
		return "it is not valid UTF-8"
	case path[len(path)-1] == '/' && !sequential:
		return "a path does not end with /"
	}
	start := 1
	for i := 1; i <= len(path); i++ { // the end of the path also ends an element
		if i < len(path) && path[i] != '/' {
			continue
		}
		switch name := path[start:i]; {
		case name == "" && i < len(path):
			return "it has an empty element (//)"
		case name == "." || name == "..":
			return "it has the element " + name
		}
		start = i + 1
	}
	for _, r := range path {
		if BadRune(r) {
			return fmt.Sprintf("it has the character %U", r)
		}
	}
	return ""
}

// BadRune reports whether no path may contain r: a control character, a surrogate, the private use area, and the specials. Servers
// compare UTF-16 units, so they also refuse everything beyond U+FFFF.
func BadRune(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
