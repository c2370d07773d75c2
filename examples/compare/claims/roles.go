//go:build linux

package claims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Role is one process of an experiment: what hangs or is killed in it takes nothing else along. It ends with its input.
type Role struct {
	Driver lock.Driver
	Addrs  []string
	Name   string   // of its lock
	More   []string // arguments: how many locks it keeps
	In     io.Reader
	Out    io.Writer

	saying sync.Mutex
}

// Play plays a role. It fails as server.Check does.
func (r *Role) Play(name string) {
	map[string]func(){"hold": r.hold, "keep": r.keep, "cross": r.cross, "together": r.together}[name]()
}

func (r *Role) say(format string, args ...any) {
	r.saying.Lock()
	defer r.saying.Unlock()
	fmt.Fprintf(r.Out, format+"\n", args...)
}

func (r *Role) untilTheEnd() { _, _ = io.Copy(io.Discard, r.In) }

func (r *Role) dial() lock.Client { return server.Must(r.Driver(context.Background(), r.Addrs)) }

func locker(c lock.Client, name string) lock.Locker {
	return server.Must(c.Locker(context.Background(), name))
}

// hold takes a lock and writes to a store for as long as it believes that it holds it: a line a write. It ends when it is told
// that the lock is lost; if it has a token, it writes on, as a program does that ignores the loss.
func (r *Role) hold() {
	l := locker(r.dial(), r.Name)
	r.say("waiting")
	server.Check(l.Lock(context.Background()))
	var token uint64
	if l.Token != nil {
		token = l.Token()
	}
	var lost <-chan struct{}
	if l.Lost != nil {
		lost = l.Lost()
	}
	done := make(chan struct{})
	go func() {
		r.untilTheEnd()
		close(done)
	}()
	r.say("granted token=%d", token)
	for write := "write"; ; {
		select {
		case <-lost:
			r.say("lost")
			if token == 0 {
				return
			}
			lost, write = nil, "late"
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
			r.say("%s token=%d", write, token)
		}
	}
}

// keep takes many locks with one client and does nothing with them. It says how many it has, and why not more.
func (r *Role) keep() {
	ctx, c := context.Background(), r.dial()
	var all []lock.Locker
	var failed error
	atOnce := 32
	for i := range server.Must(strconv.Atoi(r.More[0])) {
		each := fmt.Sprintf("%s-%d", r.Name, i)
		switch {
		case len(all) > 0 && all[0].Also != nil: // one connection, which does one thing at a time
			all, atOnce = append(all, all[0].Also(each)), 1
		case failed == nil:
			failed = server.Try(func() { all = append(all, locker(c, each)) })
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
		first[i] = locker(c, names[i])
		if first[i].Also != nil {
			second[i] = first[i].Also(names[1-i])
		} else {
			second[i] = locker(c, names[1-i])
		}
	}
	for _, l := range first {
		server.Check(l.Lock(ctx))
	}
	r.say("crossed")
	for i, l := range second {
		go func() {
			if err := l.Lock(ctx); err != nil {
				r.say("refused %.400q", err.Error())
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
		l := c.Set(fmt.Sprint(r.Name, "-", i), fmt.Sprint(r.Name, "-", 1-i))
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
