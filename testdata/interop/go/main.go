// Command go is a Go client of locks in a process of its own, with one ZooKeeper session. It reads commands line by line:
// see ../README.md. The tests also use this library in their own process. They need this program because they can kill it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes"
)

// peer is the process.
type peer struct {
	id     string
	client *recipes.Client
	out    sync.Mutex

	handles map[string]*handle // used by the reader of commands only
}

// handle takes one lock by one recipe. A goroutine of its own runs the commands that may wait.
type handle struct {
	way
	mutex *recipes.Mutex // for the soak; nil for other recipes
	lease *recipes.Lease
	work  chan func()
}

// way takes the lock of a recipe. The tests also compile this program with a former version of the library, so it uses only
// calls that both versions have.
type way struct {
	lock, try func(context.Context) (*recipes.Lease, error)
}

func main() {
	connect, id := os.Args[1], os.Args[3]
	millis, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = run(connect, time.Duration(millis)*time.Millisecond, id)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(connect string, timeout time.Duration, id string) error {
	c, err := recipes.Dial(context.Background(), recipes.Config{
		Servers: []string{connect}, ID: id, SessionTimeout: timeout, ConnectTimeout: 5 * time.Minute,
	})
	if err != nil {
		return err
	}
	p := &peer{id: id, client: c, handles: map[string]*handle{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			return fmt.Errorf("not a command: %q", lines.Text())
		}
		p.obey(words[0], words[1], words[2:])
	}
	// The end of the input ends the process and its session: the driver is gone.
	return c.Close()
}

// say writes a line in one write, so that a killed process does not leave half an acknowledgement.
func (p *peer) say(line string) {
	p.out.Lock()
	defer p.out.Unlock()
	_, _ = os.Stdout.WriteString(line + "\n") // an error means that the driver is gone
}

// obey runs a command that may wait in the handle's goroutine, and any other command at once.
func (p *peer) obey(number, verb string, args []string) {
	switch verb {
	case "hello":
		p.reply(number, p.hello)
		return
	case "open":
		p.reply(number, func() (string, error) { return "", p.open(args) })
		return
	}
	if len(args) == 0 || p.handles[args[0]] == nil {
		p.say(number + " err no command or no handle: " + verb + " " + strings.Join(args, " "))
		return
	}
	h := p.handles[args[0]]
	var action func() (string, error)
	switch verb {
	case "acquire":
		action = func() (string, error) { return h.acquire(len(args) > 1) }
	case "release":
		action = func() (string, error) { return "", h.lease.Unlock(context.Background()) }
	case "soak":
		action = func() (string, error) { return "", p.soak(h, args[1:]) }
	default:
		p.say(number + " err unknown command " + verb)
		return
	}
	h.work <- func() { p.reply(number, action) }
}

func (p *peer) reply(number string, action func() (string, error)) {
	answer, err := action()
	if errors.Is(err, recipes.ErrHeld) {
		p.say(number + " held")
		return
	}
	if err != nil {
		p.say(number + " err " + strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	p.say(strings.TrimSpace(number + " ok " + answer))
}

func (p *peer) hello() (string, error) {
	s, err := p.client.Session(context.Background())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", s.ID()), nil
}

// open makes a handle. Its arguments are HANDLE RECIPE PATH.
func (p *peer) open(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("no recipe in %v", args)
	}
	h := &handle{work: make(chan func(), 16)}
	switch c, path := p.client, args[2]; args[1] {
	case "mutex":
		h.mutex = c.Mutex(path)
		h.way = way{h.mutex.Lock, h.mutex.TryLock}
	case "read":
		h.way = way{c.RWMutex(path).RLock, c.RWMutex(path).TryRLock}
	case "write":
		h.way = way{c.RWMutex(path).Lock, c.RWMutex(path).TryLock}
	case "semaphore":
		permits := func(take func(context.Context, int) (*recipes.Lease, error)) func(context.Context) (*recipes.Lease, error) {
			return func(ctx context.Context) (*recipes.Lease, error) { return take(ctx, 1) }
		}
		h.way = way{permits(c.Semaphore(path).Acquire), permits(c.Semaphore(path).TryAcquire)}
	case "election":
		h.way = way{lock: c.Election(path).Campaign}
	default:
		return fmt.Errorf("no recipe %s", args[1])
	}
	p.handles[args[0]] = h
	go func() {
		for f := range h.work {
			f()
		}
	}()
	return nil
}

// acquire returns the contender's path. If the command has a timeout, which is always 0 in the tests, acquire tries once.
func (h *handle) acquire(once bool) (string, error) {
	take := h.lock
	if once {
		take = h.try
	}
	l, err := take(context.Background())
	if err != nil {
		return "", err
	}
	h.lease = l
	return l.Node(), nil
}
