// Package explain words errors for a person: what failed, where and why, what was written, and what to do next.
//
//	x := explain.Of(err)
//	fmt.Printf("Error: %s\n\n%s\n", x.Summary, x.Text())
//
// An error that has such parts is an [Explainer]; package apply/failure makes most of them. [DidYouMean] and [NearestAddr] suggest names
// for one that is misspelt. The package relies on no plan and reads nothing.
package explain

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes/kind"
)

// Explanation is an error, divided into the parts that a person reads. The code that makes the error
// words it, once. String is one line, for logs; Text is for a screen, below the Summary.
type Explanation struct {
	Summary string   // what failed: one line, no full stop
	Addr    string   // of the change it is about; "" when there is none
	Path    string   // of the node
	Detail  string   // where and why, in sentences
	List    []string // follows a Detail that ends with a colon
	Written string   // what has been written; "" if that follows from the rest
	Next    string   // what to do next, in sentences
}

// Explainer is an error that comes in parts. If its Detail is empty, the error's text takes its place.
type Explainer interface {
	error
	Explain() Explanation
}

// Of returns the parts of an error. If it has none, the first line of its text is the summary.
func Of(err error) Explanation {
	text := Plain(err.Error())
	var e Explainer
	switch {
	case errors.As(err, &e):
		x := e.Explain()
		if x.Detail == "" {
			x.Detail = Sentence(text)
		}
		return x
	case errors.Is(err, context.Canceled):
		return Explanation{
			Summary: "Interrupted",
			Detail:  "The command was stopped before it was done. Run it again to go on.",
		}
	}
	summary, detail, _ := strings.Cut(text, "\n")
	return Explanation{Summary: summary, Detail: strings.TrimSpace(detail)}
}

// Within is the explanation of an error caused by x. Statements of x about writes are left out, because they apply only to its
// own step.
func (x Explanation) Within(summary, before, next string) Explanation {
	if x.Detail == "" {
		x.Detail = Sentence(x.Summary)
	}
	if strings.Contains(next, x.Next) {
		x.Next = ""
	}
	x.Summary, x.Detail, x.Written, x.Next = summary, before+x.Detail, "", paragraphs(x.Next, next)
	return x
}

// Text returns everything but the summary, in paragraphs.
func (x Explanation) Text() string {
	detail := x.Detail
	if len(x.List) > 0 {
		detail += "\n"
		for _, one := range x.List {
			detail += "\n  - " + kind.Visible(one)
		}
	}
	return paragraphs(detail, strings.TrimSpace(x.Written+" "+x.Next))
}

// String returns everything in one line.
func (x Explanation) String() string {
	parts := []string{x.Summary + ": " + x.Detail}
	if len(x.List) > 0 {
		parts = append(parts, strings.Join(x.List, "; ")+".")
	}
	return strings.Join(strings.Fields(strings.Join(append(parts, x.Written, x.Next), " ")), " ")
}

func paragraphs(texts ...string) string {
	var out []string
	for _, text := range texts {
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n\n")
}

// prefixes are the package names at the beginning of errors and of the errors they wrap. The same word in
// the middle of a sentence is not a prefix: "lock is of another kind: /t/ledger".
var prefixes = regexp.MustCompile(`(^|: |; |\(|\n)(?:(?:recipes|kind|plan|apply|zk|json): )+`)

// Plain returns the text of an error of this program or its libraries without the names of packages.
func Plain(text string) string { return prefixes.ReplaceAllString(text, "$1") }

// Sentence makes a sentence of an error's text, which begins with a small letter and has no full stop.
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

// Plural is the ending of a noun that counts n things.
func Plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Few lists names in a sentence: the first ones, and how many more there are.
func Few[S ~string](names []S, room int) string {
	var out []string
	for _, name := range names[:min(len(names), room)] {
		out = append(out, string(name))
	}
	text := strings.Join(out, ", ")
	if more := len(names) - len(out); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
