package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Cross is a process with two clients that take two locks in opposite order: each has one, and then asks for the other's. It
// says what becomes of each, gives back what a client has whose second lock failed, and ends with its input.
func Cross(d Driver, addrs []string, name string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	type party struct{ first, second Locker }
	var parties []party
	names := []string{name + "-0", name + "-1"}
	for i := range names {
		c, err := d.Dial(ctx, addrs)
		if err != nil {
			return err
		}
		var p party
		if p.first, err = c.Locker(ctx, What{Kind: Mutex, Names: names[i : i+1]}); err != nil {
			return err
		}
		other := names[1-i]
		if h, ok := p.first.(Holding); ok {
			p.second = h.Also(other)
		} else if p.second, err = c.Locker(ctx, What{Kind: Mutex, Names: []string{other}}); err != nil {
			return err
		}
		parties = append(parties, p)
	}
	for _, p := range parties {
		if err := p.first.Lock(ctx); err != nil {
			return err
		}
	}
	var saying sync.Mutex
	say := func(format string, args ...any) {
		saying.Lock()
		defer saying.Unlock()
		fmt.Fprintf(out, format+"\n", args...)
	}
	say("crossed")
	for _, p := range parties {
		go func() {
			if err := p.second.Lock(ctx); err != nil {
				say("refused %.200q", err.Error())
				_ = p.first.Unlock(ctx) // as a program does that is told
				return
			}
			say("granted")
		}()
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// Together is Cross for a lock that takes both at once, in opposite orders, fifty times each.
func Together(d Driver, addrs []string, name string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		c, err := d.Dial(ctx, addrs)
		if err != nil {
			return err
		}
		defer c.Close()
		l, err := c.Locker(ctx, What{Kind: Set, Names: []string{fmt.Sprint(name, "-", i), fmt.Sprint(name, "-", 1-i)}})
		if err != nil {
			return err
		}
		all.Go(func() {
			for n := 0; n < 50 && errs[i] == nil; n++ {
				if errs[i] = l.Lock(ctx); errs[i] == nil {
					errs[i] = l.Unlock(ctx)
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintln(out, "together")
	_, _ = io.Copy(io.Discard, in)
	return nil
}
