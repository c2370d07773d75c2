package drivers

import (
	"context"

	"github.com/locktree/locktree/examples/compare/lock"
)

// nothing grants everything at once.
type nothing struct{}

func (n nothing) Dial(context.Context, []string) (lock.Client, error)    { return n, nil }
func (n nothing) Locker(context.Context, lock.What) (lock.Locker, error) { return n, nil }
func (nothing) Lock(context.Context) error                               { return nil }
func (nothing) Unlock(context.Context) error                             { return nil }
func (nothing) Close() error                                             { return nil }
