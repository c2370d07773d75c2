package held

import (
	"errors"
	"fmt"
)

// ErrReleased: Unlock gave the lease back.
var ErrReleased = errors.New("recipes: lock released")

// Released is the cause a released lease's context carries.
type Released string // the path

func (path Released) Error() string { return ErrReleased.Error() + ": " + string(path) }
func (Released) Unwrap() error      { return ErrReleased }

// ErrGranted marks what went wrong behind a grant.
var ErrGranted = errors.New("the lock was granted")

// AfterGrant marks err, and leaves its text and what it wraps as they are; nil stays nil.
func AfterGrant(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w%.0w", err, ErrGranted)
}
