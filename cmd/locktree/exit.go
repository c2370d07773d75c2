package main

import (
	"errors"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// The exit codes. They are an interface: scripts branch on them.
const (
	exitOK      = 0
	exitError   = 1 // failed, invalid, cancelled, stale, locked, interrupted
	exitChanges = 2 // plan and status with -detailed-exitcode: there are differences
	exitFmtRead = 2 // fmt: a file does not parse
	exitFmtDiff = 3 // fmt -check and generate -check: a file would change

	// Only with apply or destroy -detailed-exitcode.
	exitStale  = 4 // the saved plan no longer fits what is in ZooKeeper
	exitLocked = 5 // somebody else's apply holds the lock
	exitInUse  = 6 // a lock to be deleted or replaced is held

	// Only of exec, which otherwise exits with the code of its command. Commands rarely use
	// them, as with timeout(1) and env(1).
	exitSlot      = 122             // with -once: somebody else has run the slot, or skipped it
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
	if err == nil {
		return exitOK
	}
	if ce, ok := asType[*codeError](err); ok {
		return ce.code
	}
	return exitError
}

// asType is the first error of its type in the chain.
func asType[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

func isA[E error](err error) bool {
	_, ok := asType[E](err)
	return ok
}

// exit gives errors that a script distinguishes their codes.
func (f *applyFlags) exit(err error) error {
	switch {
	case !f.detailedExitcode, isA[*failure.PartialError](err), isA[*view.SomeEnsembles](err), isA[*failure.ClosedError](err): // the codes say that nothing was written
		return err
	case isA[*failure.StaleError](err):
		return &codeError{exitStale, err}
	case isA[*failure.LockedError](err):
		return &codeError{exitLocked, err}
	case isA[*failure.InUseError](err):
		return &codeError{exitInUse, err}
	}
	return err
}
