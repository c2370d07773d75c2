package drivers

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/examples/compare/lock"
)

// mutex makes the lockers of a client whose system has no other lock, or has none that is compared.
func mutex(locker func(ctx context.Context, name string) (lock.Locker, error)) func(context.Context, lock.What) (lock.Locker, error) {
	return func(ctx context.Context, what lock.What) (lock.Locker, error) {
		if what.Kind != lock.Mutex {
			return lock.Locker{}, fmt.Errorf("%w: its driver has only a mutex", lock.ErrNotOffered)
		}
		return locker(ctx, what.Names[0])
	}
}
