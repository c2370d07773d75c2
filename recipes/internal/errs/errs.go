// Package errs makes the texts of this library's errors: each begins with one "recipes:", however many errors it wraps.
package errs

import (
	"fmt"
	"strings"
)

// prefix begins the text of this library's errors.
const prefix = "recipes: "

// Errorf is fmt.Errorf for an error that wraps others of this library: its text has one prefix.
func Errorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &rewordedError{err, OnePrefix(err.Error())}
}

// OnePrefix moves the prefixes in a text to its beginning.
func OnePrefix(text string) string {
	rest, begins := strings.CutPrefix(text, prefix)
	plain := strings.ReplaceAll(rest, ": "+prefix, ": ")
	if begins || plain != rest {
		return prefix + plain
	}
	return text
}

// rewordedError is an error with another text.
type rewordedError struct {
	error
	text string
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.error }
