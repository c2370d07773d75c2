// Command crossing takes a ferry from two goroutines of one client, several times each, and looks at it while it holds it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, path string) error {
	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{server}, SessionTimeout: 40 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	var errs [2]error
	var passengers sync.WaitGroup
	for i := range errs {
		passengers.Go(func() {
			for range 5 {
				errs[i] = errors.Join(errs[i], cross(ctx, c, path))
			}
		})
	}
	passengers.Wait()
	return errors.Join(errors.Join(errs[:]...), undeclared(ctx, c, path+"-nobody-declared"))
}

func cross(ctx context.Context, c *recipes.Client, path string) error {
	l, err := c.Ferry(path).Lock(ctx)
	if err != nil {
		return err
	}
	in, err := inspect.Lock(ctx, c, path)
	if err != nil {
		return err
	}
	aboard := slices.ContainsFunc(in.Holders, func(h recipes.Contender) bool { return h.Path == l.Node() })
	if in.Kind != kind.Ferry || in.Guessed || !aboard || len(in.Holders) > 2 || len(in.Junk) > 0 {
		return fmt.Errorf("from aboard as %s: %v", l.Node(), in)
	}
	return l.Unlock(ctx)
}

// undeclared takes a ferry without a declaration: alone, and together with another lock.
func undeclared(ctx context.Context, c *recipes.Client, path string) error {
	path = fmt.Sprintf("%s-%d", path, os.Getpid())
	f := c.Ferry(path, recipes.WithParams(kind.Ferry.New()), recipes.WithCreate())
	l, err := f.TryLock(ctx)
	if err != nil {
		return err
	}
	in, err := inspect.Lock(ctx, c, path)
	if err != nil {
		return err
	}
	if in.Kind != kind.Ferry || !in.Guessed || len(in.Holders) != 1 {
		return fmt.Errorf("nobody declared it: %v", in)
	}
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	both := c.MultiLock(f, c.Mutex(path+"-mutex", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()))
	m, err := both.Lock(ctx)
	if err != nil {
		return err
	}
	return m.Unlock(ctx)
}
