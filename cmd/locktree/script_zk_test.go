package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// hand reads and changes the tree beside locktree, and has programs that hold locks.
type hand struct {
	addr   string
	client *recipes.Client

	mu       sync.Mutex
	holders  []*program
	programs map[string]*program
	faults   []*zktest.Injection
	trouble  error // errors of meddle

	over chan struct{} // closed with the script
}

// program is a client that knows when it has to wait.
type program struct {
	client *recipes.Client
	waits  chan struct{} // told that it stands in a queue without having been granted
	locks  []string      // it was told to take
	cut    *atomic.Bool  // it gets no connection
}

type handKey struct{}

// patience is how long a verb of a script may take. Only one that hangs takes that long; a session that was not closed in time expires
// before.
const patience = 5 * time.Minute

func newHand(addr string) (*hand, error) {
	h := &hand{addr: addr, over: make(chan struct{})}
	var err error
	h.client, err = h.dial("hand", nil, new(atomic.Bool))
	return h, err
}

func (h *hand) dial(id string, o func(recipes.Event), cut *atomic.Bool) (*recipes.Client, error) {
	return recipes.Dial(context.Background(), recipes.Config{
		Servers: []string{h.addr}, ID: id, Observer: o, ConnectTimeout: patience, SessionTimeout: 40 * time.Second,
		Auth: []recipes.Auth{{Scheme: "digest", Credentials: "super:super"}},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if cut.Load() {
				return nil, errors.New("cut off")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
}

func (h *hand) close() {
	close(h.over)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.holders {
		p.cut.Store(false)
		_ = p.client.Close()
	}
	_ = h.client.Close()
}

// releaseAll ends all programs. When it returns, they have no node in a queue.
func (h *hand) releaseAll(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.holders {
		cut := p.cut.Swap(false)
		s, err := p.client.Session(ctx)
		if err != nil {
			return err
		}
		if cut { // without a connection, its session would end only when it expires
			if _, err := s.Exists(ctx, "/"); err != nil {
				return err
			}
		}
		if p.client.Close() == nil {
			continue
		}
		// The servers were slow to confirm it, and may not have closed the session yet.
		for _, path := range p.locks {
			if err := h.awaitNothingOf(ctx, s.ID(), path); err != nil {
				return err
			}
		}
	}
	h.holders = nil
	return nil
}

// awaitNothingOf waits until the session owns no node at or below path.
func (h *hand) awaitNothingOf(ctx context.Context, session int64, path string) error {
	s, err := h.client.Session(ctx)
	if err != nil {
		return err
	}
	for {
		stat, err := s.Exists(ctx, path)
		switch {
		case err != nil || stat == nil:
			return err
		case stat.EphemeralOwner != session:
			children, _, err := s.Children(ctx, path)
			if errors.Is(err, zk.ErrNoNode) { // it went meanwhile
				return nil
			}
			for _, child := range children {
				err = errors.Join(err, h.awaitNothingOf(ctx, session, path+"/"+child))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still the session's that was closed: %w", path, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// zkCommand is the verb "zk" of the scripts:
//
//	zk create PATH DATA    zk set PATH DATA    zk delete PATH
//	zk twice PATH DATA     sets it two times
//	zk setfile PATH FILE   zk get PATH         zk dump PATH (both to stdout)
//	zk closed PATH         an existing node becomes super's alone
//	zk grant PATH PERMS    everyone has these rights on it, and no other entry stays
//	zk empty PATH          the children of a node are deleted
//	zk session PATH        a node that belongs to a session
//	zk hold ID PATH        a program called ID takes the lock
//	zk wait ID PATH        a program called ID queues behind it
//	zk also ID PATH        the program called ID queues there too
//	zk release             all of them end
func zkCommand(ts *testscript.TestScript, neg bool, args []string) {
	h := ts.Value(handKey{}).(*hand)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(args) == 3 && args[0] == "setfile" {
		args = []string{"set", args[1], strings.TrimSuffix(ts.ReadFile(args[2]), "\n")}
	}
	h.mu.Lock()
	ts.Check(h.trouble)
	h.mu.Unlock()
	out, err := h.do(ctx, args)
	if neg {
		if err == nil {
			ts.Fatalf("zk %v worked", args)
		}
		return
	}
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), out)
}

func (h *hand) do(ctx context.Context, args []string) (string, error) {
	s, err := h.client.Session(ctx)
	if err != nil {
		return "", err
	}
	arg := func(i int) string { return append(args, "", "", "")[i] }
	switch arg(0) {
	case "create":
		return "", createAll(ctx, s, arg(1), arg(2))
	case "set":
		_, err := s.Set(ctx, arg(1), []byte(arg(2)), -1)
		return "", err
	case "twice":
		_, err := s.Set(ctx, arg(1), []byte(arg(2)), -1)
		_, again := s.Set(ctx, arg(1), []byte(arg(2)), -1)
		return "", errors.Join(err, again)
	case "delete":
		return "", s.Delete(ctx, arg(1), -1)
	case "get":
		data, _, err := s.Get(ctx, arg(1))
		return string(data) + "\n", err
	case "dump":
		var b strings.Builder
		err := dump(ctx, s, &b, arg(1))
		return b.String(), err
	case "closed":
		_, err := s.SetACL(ctx, arg(1), zk.DigestACL(zk.PermAll, "nobody", "nothing"), -1)
		return "", err
	case "grant":
		_, err := s.SetACL(ctx, arg(1), []zk.ACL{{Scheme: "world", ID: "anyone", Perms: permsOf(arg(2))}}, -1)
		return "", err
	case "empty":
		names, _, err := s.Children(ctx, arg(1))
		for _, name := range names {
			err = errors.Join(err, s.Delete(ctx, arg(1)+"/"+name, -1))
		}
		return "", err
	case "session":
		_, err := s.Create(ctx, arg(1), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return "", err
	case "hold", "wait":
		return "", h.take(ctx, arg(0) == "wait", arg(1), arg(2))
	case "also":
		h.mu.Lock()
		p := h.programs[arg(1)]
		h.mu.Unlock()
		return "", h.start(ctx, p, true, arg(1), arg(2))
	case "release":
		return "", h.releaseAll(ctx)
	}
	return "", fmt.Errorf("zk: no such verb %q", arg(0))
}

func permsOf(letters string) (perms int32) {
	for _, c := range letters {
		perms |= 1 << strings.IndexRune("rwcda", c)
	}
	return perms
}

func createAll(ctx context.Context, s *direct.Session, path, data string) error {
	if parent := path[:strings.LastIndexByte(path, '/')]; parent != "" {
		if stat, err := s.Exists(ctx, parent); err != nil || stat == nil {
			if err := errors.Join(err, createAll(ctx, s, parent, "")); err != nil {
				return err
			}
		}
	}
	_, err := s.Create(ctx, path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	return err
}

// dump writes a node and all nodes below it, one a line. A command that must not write leaves it equal.
func dump(ctx context.Context, s *direct.Session, b *strings.Builder, path string) error {
	return walk(ctx, s, path, func(path string, data []byte, stat *zk.Stat, acl []zk.ACL) {
		if !strings.HasPrefix(path, "/zookeeper") { // which is ZooKeeper's own
			fmt.Fprintf(b, "%s %q version %d, acl %v version %d\n", path, data, stat.Version, acl, stat.Aversion)
		}
	})
}

func walk(ctx context.Context, s *direct.Session, path string, visit func(path string, data []byte, stat *zk.Stat, acl []zk.ACL)) error {
	data, stat, err := s.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	acl, _, err := s.GetACL(ctx, path)
	if err != nil {
		return err
	}
	visit(path, data, stat, acl)
	children, _, err := s.Children(ctx, path)
	slices.Sort(children)
	for _, c := range children {
		err = errors.Join(err, walk(ctx, s, kind.JoinPath(path, c), visit))
	}
	return err
}

// take lets a new program lock path; with wait it returns as soon as the program
// stands in the queue.
func (h *hand) take(ctx context.Context, wait bool, id, path string) error {
	p := &program{waits: make(chan struct{}, 1), cut: new(atomic.Bool)}
	var err error
	if p.client, err = h.dial(id, func(e recipes.Event) {
		if e.Type == recipes.EventQueued {
			select {
			case p.waits <- struct{}{}:
			default:
			}
		}
	}, p.cut); err != nil {
		return err
	}
	h.mu.Lock()
	h.holders = append(h.holders, p)
	if h.programs == nil {
		h.programs = map[string]*program{}
	}
	h.programs[id] = p
	h.mu.Unlock()
	return h.start(ctx, p, wait, id, path)
}

func (h *hand) start(ctx context.Context, p *program, wait bool, id, path string) error {
	h.mu.Lock()
	p.locks = append(p.locks, path)
	h.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		done <- h.lock(context.WithoutCancel(ctx), p.client, path)
	}()
	waits := p.waits
	if !wait {
		waits = nil
	}
	select {
	case <-waits:
		return nil
	case err := <-done:
		if wait {
			return fmt.Errorf("%s did not have to wait: %v", id, err)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s has neither the lock nor a place in its queue: %w", id, ctx.Err())
	}
}

// lock takes whatever is declared at path, as strictly as it can be taken.
func (h *hand) lock(ctx context.Context, c *recipes.Client, path string) error {
	s, err := h.client.Session(ctx)
	if err != nil {
		return err
	}
	data, _, err := s.Get(ctx, path)
	if err != nil {
		return err
	}
	p, err := kind.Decode(data)
	if err != nil {
		return err
	}
	switch p.Params.Kind() {
	case kind.Mutex:
		_, err = c.Mutex(path).Lock(ctx)
	case kind.RWLock:
		_, err = c.RWMutex(path).Lock(ctx)
	case kind.Semaphore:
		_, err = c.Semaphore(path).Acquire(ctx, 1)
	case kind.Election:
		_, err = c.Election(path).Campaign(ctx)
	case kind.Once:
		_, err = c.Locker(kind.Once, path, false, 0).Lock(ctx)
	default:
		err = fmt.Errorf("a %s cannot be locked", p.Params.Kind())
	}
	return err
}
