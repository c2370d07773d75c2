package view

import "fmt"

// Failure is an error that already says what happened, in one line, and where,
// why and what to do next, in sentences.
type Failure struct{ Summary, Detail string }

// Failf returns a Failure whose detail is formatted.
func Failf(summary, detail string, args ...any) error {
	return &Failure{Summary: summary, Detail: fmt.Sprintf(detail, args...)}
}

func (f *Failure) Error() string { return f.Summary + ": " + f.Detail }
