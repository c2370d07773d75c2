package lock

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Hold is a process that takes a lock and writes to a store for as long as it believes that it holds it: a line a write.
// It ends with its input, or when it is told that the lock is lost; one that is deaf writes on with the token it had.
func Hold(d Driver, addrs []string, name string, deaf bool, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	c, err := d.Dial(ctx, addrs)
	if err != nil {
		return err
	}
	l, err := c.Locker(ctx, What{Kind: Mutex, Names: []string{name}})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "waiting")
	if err := l.Lock(ctx); err != nil {
		return err
	}
	var token uint64
	if f, ok := l.(Fenced); ok {
		token = f.Token()
	}
	var lost <-chan struct{}
	if t, ok := l.(Told); ok {
		lost = t.Lost()
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(done)
	}()
	fmt.Fprintf(out, "granted token=%d\n", token)
	for {
		select {
		case <-lost:
			fmt.Fprintln(out, "lost")
			if !deaf {
				return nil
			}
			lost = nil
		case <-done:
			return nil
		case <-time.After(5 * time.Millisecond):
			fmt.Fprintf(out, "write token=%d\n", token)
		}
	}
}
