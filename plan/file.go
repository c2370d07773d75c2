package plan

import (
	"errors"
	"fmt"
	"io"
)

// FileFormat is the version of the saved plan this package writes and reads.
const FileFormat = 1

// maxFile bounds what DecodeFile reads: some 100,000 locks are 100 MiB.
const maxFile = 512 << 20

// File is a saved plan: the plans of all ensembles of a configuration. It holds
// access lists with their digests, no passwords and no sensitive values; it is
// meant to be readable by its owner only (0600). Its checksum finds damage, not
// forgery: who may write the file decides what is applied.
type File struct {
	Format  int    // FileFormat
	Version string // of the program that wrote it
	Stack   string
	Plans   []*Plan
}

// ErrNotPlan: the data is no saved plan at all.
var ErrNotPlan = errors.New("plan: not a locktree plan file")

// ErrNotIndex: the data is no index of ours.
var ErrNotIndex = errors.New("plan: not a locktree index")

// TruncatedError: the file ends too early.
type TruncatedError struct{ Size int64 }

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("plan: the plan file ends after %d bytes, in the middle: it was cut off; create the plan again", e.Size)
}

// DamagedError: the data claims to be ours but does not make sense.
type DamagedError struct {
	What  string // "plan file", "index"
	Field string // where, as a JSON path; "" for the whole
	Err   error
}

func (e *DamagedError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("plan: damaged %s: %v", e.What, e.Err)
	}
	return fmt.Sprintf("plan: damaged %s: %s: %v", e.What, e.Field, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// VersionError: written by a newer version of this program.
type VersionError struct {
	What       string // "plan file", "index"
	Got, Reads int
	WrittenBy  string // version of the program that wrote it; may be ""
}

func (e *VersionError) Error() string {
	by := ""
	if e.WrittenBy != "" {
		by = " by locktree " + e.WrittenBy
	}
	return fmt.Sprintf("plan: the %s was written%s in format %d, this program reads format %d: upgrade locktree", e.What, by, e.Got, e.Reads)
}

// StackError: the saved plan is of another stack.
type StackError struct{ Got, Want string }

func (e *StackError) Error() string {
	return fmt.Sprintf("plan: the saved plan is of stack %q, this configuration is of stack %q: apply it from its own directory", e.Got, e.Want)
}

// CheckStack returns a [*StackError] when the saved plan is not of this stack.
func (f *File) CheckStack(stack string) error {
	if f.Stack != stack {
		return &StackError{Got: f.Stack, Want: stack}
	}
	return nil
}

// Encode writes the file. Equal files give equal bytes.
func (f *File) Encode(w io.Writer) error { return encodeFile(f, w) }

// DecodeFile reads what Encode wrote. The error is [ErrNotPlan], a
// [*TruncatedError], a [*DamagedError], a [*VersionError] or the reader's own;
// no input makes it panic.
func DecodeFile(r io.Reader) (*File, error) { return decodeFile(r) }
