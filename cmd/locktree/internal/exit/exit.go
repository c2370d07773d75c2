// Package exit has the exit codes of the program. They are an interface: scripts branch on them.
//
// A command returns an [Error] to end with a code of its own; any other error ends it with [Failed]. This package prints nothing
// and ends no process:
//
//	return exit.With(exit.Changes)
package exit

import (
	"context"
	"errors"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
)

// The exit codes.
const (
	OK      = 0
	Failed  = 1 // failed, invalid, cancelled, stale, locked, interrupted
	Changes = 2 // plan and status with -detailed-exitcode: there are differences
	FmtRead = 2 // fmt: a file does not parse or cannot be read, or there is nothing to format
	FmtDiff = 3 // fmt -check and generate -check: a file would change

	// These codes come only with -detailed-exitcode of apply, destroy or import.
	Stale  = 4 // the plan no longer fits what is in ZooKeeper
	Locked = 5 // another apply holds the lock
	InUse  = 6 // a lock to be deleted or replaced is in use

	// Only exec ends with these codes; otherwise it ends with the code of its command. Commands rarely use these codes; timeout(1)
	// uses those from 124 on in a similar way, and env(1) those from 125 on.
	Slot      = 122             // with -once: the slot (a scheduled time of the job) was run or skipped before; -E sets another code
	Lost      = 123             // the lock was lost before or while the command ran, or exec told the command to end
	Conflict  = 124             // the lock is held, draining or has a full queue, -timeout was over, or exec was asked to leave the queue; -E sets another code
	Own       = 125             // anything that failed outside the command
	CannotRun = child.CannotRun // the command is not executable
	NotFound  = child.NotFound  // there is no such command
)

// Error ends the program with a code. Its text is still to be shown; it has none if Err is nil.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Wrap ends the command with a code, and with an error that is shown.
func Wrap(code int, err error) error { return &Error{code, err} }

// The function With ends the command with a code and shows nothing more.
func With(code int) error {
	if code == OK {
		return nil
	}
	return &Error{Code: code}
}

// Asked returns the [Error] in the cause of ctx's end. It returns nil if ctx has not ended, or if the cause contains no [Error].
func Asked(ctx context.Context) error {
	if e := (*Error)(nil); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}

// Code returns the exit code for the result of a command.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return Failed
}
