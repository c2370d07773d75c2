package generate

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/locktree/locktree/recipes/kind"
)

// exportName makes an exported identifier of Go from a text, "" if nothing in it can be in
// one.
func exportName(text string) string {
	var b strings.Builder
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		r := []rune(w)
		r[0] = unicode.ToUpper(r[0])
		b.WriteString(string(r))
	}
	if name := b.String(); name == "" || unicode.IsUpper([]rune(name)[0]) {
		return name
	}
	return "X" + b.String() // a digit, or a letter that is neither upper nor lower case
}

// escape makes a part of an identifier from a text. Different texts give different parts.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "_%x_", r)
		}
	}
	return b.String()
}

// chooseNames chooses one name from each list. A name that is taken, or that two lists would get, is given to none of them: each
// goes on to its next name. The last name of each list must differ from the last names of all others.
func chooseNames(lists [][]string, taken ...string) []string {
	at, names := make([]int, len(lists)), make([]string, len(lists))
	for again := true; again; {
		count := map[string]int{}
		for _, name := range taken {
			count[name]++
		}
		for i, list := range lists {
			names[i] = list[at[i]]
			count[names[i]]++
		}
		again = false
		for i, list := range lists {
			if (count[names[i]] > 1 || names[i] == "") && at[i]+1 < len(list) {
				at[i]++
				again = true
			}
		}
	}
	return names
}

// typeName is the type of a block in the configuration.
func typeName(k *kind.Kind) string {
	if k == nil {
		return "module"
	}
	return k.Name
}

// field is the value of a parameter, nil if it is not the same for all keys and variables.
func field(b *Block, name string) any {
	for _, f := range b.Fields {
		if f.Name == name {
			return f.Get()
		}
	}
	return nil
}

// facts returns lines for programmers about a block, one for each fact.
func facts(b *Block) (lines []string) {
	var list []string
	for _, f := range b.Fields {
		v := f.Get()
		switch {
		case f.Name == "description" && v != "":
			lines = append(strings.Split(v.(string), "\n"), "")
		case v == f.Default || v == "":
		default:
			list = append(list, fmt.Sprintf("  - %s: %v", f.Name, v))
		}
	}
	lines = append(lines, list...)
	for i, line := range lines {
		lines[i] = printable(line)
	}
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return slices.Clip(lines)
}

// printable makes a text fit for a comment: it keeps line breaks, and replaces other unprintable characters by spaces.
func printable(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRightFunc(strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, line), unicode.IsSpace)
	}
	return strings.Join(lines, "\n")
}
