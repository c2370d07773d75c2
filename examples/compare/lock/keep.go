package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Keep is a process that takes n locks with one client and does nothing with them. It says how many it has, and what kept it
// from having more, and ends with its input.
func Keep(d Driver, addrs []string, name string, n int, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	c, err := d.Dial(ctx, addrs)
	if err != nil {
		return err
	}
	var all []Locker
	var failed error
	atOnce := 32
	for i := 0; i < n && failed == nil; i++ {
		each := fmt.Sprintf("%s-%d", name, i)
		if i > 0 {
			if h, ok := all[0].(Holding); ok { // one connection, which does one thing at a time
				all, atOnce = append(all, h.Also(each)), 1
				continue
			}
		}
		var l Locker
		if l, failed = c.Locker(ctx, What{Kind: Mutex, Names: []string{each}}); failed == nil {
			all = append(all, l)
		}
	}
	fmt.Fprintln(out, "waiting")
	errs := make([]error, len(all))
	var taking sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, l := range all {
		places <- struct{}{}
		taking.Go(func() { errs[i] = l.Lock(ctx); <-places })
	}
	taking.Wait()
	kept := 0
	for _, err := range errs {
		if err == nil {
			kept++
		}
	}
	if failed = errors.Join(append(errs, failed)...); failed == nil {
		failed = errors.New("")
	}
	fmt.Fprintf(out, "kept %d %.200q\n", kept, failed.Error())
	_, _ = io.Copy(io.Discard, in)
	return nil
}
