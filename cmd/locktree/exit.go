package main

import (
	"errors"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// The exit codes. They are an interface: scripts branch on them.
const (
	exitOK      = 0
	exitError   = 1 // failed, invalid, cancelled, stale, locked, interrupted
	exitChanges = 2 // plan and status with -detailed-exitcode: there are differences
	exitFmtRead = 2 // fmt: a file does not parse
	exitFmtDiff = 3 // fmt -check: a file would change

	// Only with apply or destroy -detailed-exitcode.
	exitStale  = 4 // the saved plan no longer fits what is in ZooKeeper
	exitLocked = 5 // somebody else's apply holds the lock
	exitInUse  = 6 // a lock to be deleted or replaced is held

	// Only of exec, which otherwise exits with the code of its command. Commands rarely use
	// them, as with timeout(1) and env(1).
	exitLost      = 123             // the lock was lost while the command ran, or the command was ended for its sake
	exitConflict  = 124             // somebody else has the lock; -E sets another one
	exitOwn       = 125             // anything else that is not the command's
	exitCannotRun = child.CannotRun // the command is not executable
	exitNotFound  = child.NotFound  // there is no such command
)

// codeError ends the program with a code. Its text, if any, is still to be shown; a nil
// err means that nothing is left to show.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// exitWith ends the command with a code and shows nothing more.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &codeError{code: code}
}

// codeOf is the exit code of what a command returned.
func codeOf(err error) int {
	var ce *codeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ce):
		return ce.code
	default:
		return exitError
	}
}

// exit gives errors that a script distinguishes their codes.
func (f *applyFlags) exit(err error) error {
	var (
		stale  *apply.StaleError
		locked *apply.LockedError
		inUse  *apply.InUseError
		part   *apply.PartialError
		some   *view.SomeEnsembles
		closed *apply.ClosedError
	)
	switch {
	case !f.detailedExitcode, errors.As(err, &part), errors.As(err, &some), errors.As(err, &closed): // the codes say that nothing was written
		return err
	case errors.As(err, &stale):
		return &codeError{exitStale, err}
	case errors.As(err, &locked):
		return &codeError{exitLocked, err}
	case errors.As(err, &inUse):
		return &codeError{exitInUse, err}
	}
	return err
}
