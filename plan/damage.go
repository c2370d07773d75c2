package plan

import (
	"errors"
	"fmt"
)

// ErrNotIndex: the data is not the record of a stack.
var ErrNotIndex = errors.New("plan: not a record of locktree")

// DamagedError: the data claims to be ours but does not make sense.
type DamagedError struct {
	What  string // "record"
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

// VersionError: the record was written by a newer version of this program.
type VersionError struct{ Got, Reads int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("plan: the record was written in format %d, this program reads format %d: upgrade locktree", e.Got, e.Reads)
}
