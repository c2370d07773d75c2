package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// Clean makes one line of text safe to print: what a server or a foreign client wrote
// may contain control characters, which a terminal obeys.
func Clean[S ~string](s S) string { return kind.Visible(string(s)) }

// CleanLines is Clean for text that may have several lines.
func CleanLines(s string) string { return eachLine(s, Clean) }

func eachLine(s string, change func(string) string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = change(l)
	}
	return strings.Join(lines, "\n")
}

// Line is a line that a command prints by itself.
func Line(text string) string { return string((&lines{}).disarm([]byte(Clean(text)))) }

// Cell is Clean for a column of a table: no text of others makes it wider than this.
func Cell[S ~string](s S) string { return Shorten(Clean(s), maxName) }

const maxName = 80

// Shorten leaves out the middle of a name longer than room. It keeps more of the end, which says more of a path or a process.
func Shorten(name string, room int) string {
	r := []rune(name)
	if len(r) <= room {
		return name
	}
	head := (room - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(room-1-head):])
}

// Quote is a text as the configuration would write it.
func Quote(s string) string { return strconv.Quote(s) }

// PluralWord chooses the form of a word after a number.
func PluralWord(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Plural counts: "1 block", "3 blocks".
func Plural(n int, what string) string {
	return fmt.Sprintf("%d %s%s", n, what, PluralWord(n, "", "s"))
}

// FirstFew names the first three, and counts the rest.
func FirstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Elapsed is in whole seconds, as in Terraform.
func Elapsed(d time.Duration) string { return d.Truncate(time.Second).String() }

// NotRecorded begins a line about a change that is not in the history.
const NotRecorded = "This is in no history: "

// Table aligns the lines of write by their tabs.
func Table(write func(io.Writer)) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	write(w)
	_ = w.Flush()
	return out.String()
}
