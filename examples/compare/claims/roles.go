package claims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Role is one process of an experiment: what hangs or is killed in it takes nothing else along. It ends with its input.
type Role struct {
	Driver lock.Driver
	Addrs  []string
	Name   string // of its lock
	Count  int    // of locks it keeps
	Deaf   bool   // it does not listen when it is told that its lock is lost
	In     io.Reader
	Out    io.Writer

	saying sync.Mutex
}

// Play plays a role.
func (r *Role) Play(name string) error {
	play := map[string]func(){"hold": r.hold, "keep": r.keep, "cross": r.cross, "together": r.together}[name]
	if play == nil {
		return fmt.Errorf("there is no role %q", name)
	}
	return server.Try(play)
}

func (r *Role) say(format string, args ...any) {
	r.saying.Lock()
	defer r.saying.Unlock()
	fmt.Fprintf(r.Out, format+"\n", args...)
}

func (r *Role) untilTheEnd() { _, _ = io.Copy(io.Discard, r.In) }

func (r *Role) dial() lock.Client { return server.Must(r.Driver.Dial(context.Background(), r.Addrs)) }

func locker(c lock.Client, kind string, names ...string) lock.Locker {
	return server.Must(c.Locker(context.Background(), lock.What{Kind: kind, Names: names}))
}

// hold takes a lock and writes to a store for as long as it believes that it holds it: a line a write. It ends when it is told
// that the lock is lost; if it is deaf, it writes on with the token it had.
func (r *Role) hold() {
	l := locker(r.dial(), lock.Mutex, r.Name)
	r.say("waiting")
	server.Check(l.Lock(context.Background()))
	var token uint64
	if f, ok := l.(lock.Fenced); ok {
		token = f.Token()
	}
	var lost <-chan struct{}
	if t, ok := l.(lock.Told); ok {
		lost = t.Lost()
	}
	done := make(chan struct{})
	go func() {
		r.untilTheEnd()
		close(done)
	}()
	r.say("granted token=%d", token)
	for {
		select {
		case <-lost:
			r.say("lost")
			if !r.Deaf {
				return
			}
			lost = nil
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
			r.say("write token=%d", token)
		}
	}
}

// keep takes many locks with one client and does nothing with them. It says how many it has, and why not more.
func (r *Role) keep() {
	ctx, c := context.Background(), r.dial()
	var all []lock.Locker
	var failed error
	atOnce := 32
	for i := 0; i < r.Count && failed == nil; i++ {
		each := fmt.Sprintf("%s-%d", r.Name, i)
		if i > 0 {
			if h, ok := all[0].(lock.Holding); ok { // one connection, which does one thing at a time
				all, atOnce = append(all, h.Also(each)), 1
				continue
			}
		}
		if failed = server.Try(func() { all = append(all, locker(c, lock.Mutex, each)) }); failed != nil {
			break
		}
	}
	r.say("waiting")
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
	why := ""
	if err := errors.Join(append(errs, failed)...); err != nil {
		why = err.Error()
	}
	r.say("kept %d %.200q", kept, why)
	r.untilTheEnd()
}

// cross takes two locks with two clients in opposite order: each has one, and then asks for the other's. It says what becomes
// of each, and gives back what a client has whose second lock failed.
func (r *Role) cross() {
	ctx, names := context.Background(), []string{r.Name + "-0", r.Name + "-1"}
	var first, second [2]lock.Locker
	for i := range names {
		c := r.dial()
		first[i] = locker(c, lock.Mutex, names[i])
		if h, ok := first[i].(lock.Holding); ok {
			second[i] = h.Also(names[1-i])
		} else {
			second[i] = locker(c, lock.Mutex, names[1-i])
		}
	}
	for _, l := range first {
		server.Check(l.Lock(ctx))
	}
	r.say("crossed")
	for i, l := range second {
		go func() {
			if err := l.Lock(ctx); err != nil {
				r.say("refused %.200q", err.Error())
				_ = first[i].Unlock(ctx) // as a program does that is told
				return
			}
			r.say("granted")
		}()
	}
	r.untilTheEnd()
}

// together is cross for a lock that takes both at once, in opposite orders, fifty times each.
func (r *Role) together() {
	ctx := context.Background()
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		c := r.dial()
		defer c.Close()
		l := locker(c, lock.Set, fmt.Sprint(r.Name, "-", i), fmt.Sprint(r.Name, "-", 1-i))
		all.Go(func() {
			for n := 0; n < 50 && errs[i] == nil; n++ {
				if errs[i] = l.Lock(ctx); errs[i] == nil {
					errs[i] = l.Unlock(ctx)
				}
			}
		})
	}
	all.Wait()
	server.Check(errors.Join(errs...))
	r.say("together")
	r.untilTheEnd()
}
