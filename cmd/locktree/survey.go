package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// maxSurvey bounds what one import looks at: a wrong -from on a large ensemble
// should say so soon.
const maxSurvey = 100_000

// found is one znode of a subtree that is looked at, and what it seems to be.
type found struct {
	path     string
	kind     *kind.Kind // nil: nobody can say
	params   kind.Params
	acl      []kind.ACL
	children []*found // of what is no lock
	notes    []string // for who reads the generated file
	skip     string   // why it is left out, "" when it is not
	kazoo    bool     // a semaphore of kazoo's
	inUse    int      // holders and waiters
}

// surveyor walks a subtree, looking at many nodes at a time.
type surveyor struct {
	client  *recipes.Client
	session *recipes.Session
	stack   string // whose nodes are looked into, although they are known
	emptyAs string
	seen    atomic.Int64
	free    chan struct{} // one for each node that may be looked at now
}

// maxLooks is how many nodes are looked at together: a connection is served in
// order, so more would hide no more of the network's latency.
const maxLooks = 32

// surveyTree looks at what stands at path and below, and what is between it and the
// root: a block needs those around it.
func surveyTree(ctx context.Context, c *recipes.Client, path, emptyAs, stack, root string) (top, whole *found, err error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := kind.ValidatePath(path); err != nil {
		return nil, nil, view.Failf("Illegal path", "-from=%s: %v.", path, err)
	}
	w := &surveyor{client: c, session: s, stack: stack, emptyAs: emptyAs, free: make(chan struct{}, maxLooks)}
	w.free <- struct{}{}
	top, err = w.look(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, view.Failf("Nothing there", "The ensemble has no node %s.", path)
	}
	if err != nil {
		return nil, nil, err
	}
	whole = top
	for p := path; p != root && below(p, root) && kind.ParentPath(p) != root; {
		p = kind.ParentPath(p)
		around, _, err := w.node(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		around.kind, around.params, around.children = kind.Namespace, kind.Namespace.New(), []*found{whole}
		whole = around
	}
	return top, whole, nil
}

// below reports whether path is root or stands below it.
func below(path, root string) bool {
	return root == "/" || path == root || strings.HasPrefix(path, root+"/")
}

// look looks at a node and then at those in it. It is called with a place taken,
// and gives it back before it goes deeper: else the places could all be held by
// nodes that wait for their children to get one.
func (s *surveyor) look(ctx context.Context, path string) (*found, error) {
	f, names, err := s.node(ctx, path)
	<-s.free
	if err != nil || len(names) == 0 {
		return f, err
	}
	return f, s.inside(ctx, f, names)
}

// node looks at one node. The names are of children to be looked at, too.
func (s *surveyor) node(ctx context.Context, path string) (f *found, names []string, err error) {
	if s.seen.Add(1) > maxSurvey {
		return nil, nil, view.Failf("Too many nodes", "There are more than %d nodes below -from. Import a smaller subtree at a time.", maxSurvey)
	}
	f = &found{path: path}
	in, err := inspect.Lock(ctx, s.client, path)
	if errors.Is(err, zk.ErrNoAuth) {
		f.skip = "we may not read it"
		return f, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	f.inUse = len(in.Holders) + len(in.Waiters)
	if acl, _, err := s.session.GetACL(ctx, path); err == nil {
		for _, a := range acl {
			f.acl = append(f.acl, kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)})
		}
	}
	switch {
	case in.Payload != nil && in.Payload.Owner.Stack != "":
		f.skip = fmt.Sprintf("it is %s of the stack %q already", in.Payload.Owner.Addr, in.Payload.Owner.Stack)
		if in.Kind.Container && in.Payload.Owner.Stack == s.stack { // something else may stand in it
			names, _, err = s.session.Children(ctx, path)
			slices.Sort(names)
		}
	case in.Payload != nil && !in.Kind.Container:
		f.kind, f.params = in.Kind, in.Payload.Params
	case in.Kind != nil && !in.Kind.Container:
		f.recognise(in)
	default:
		names, err = s.unknown(ctx, f)
	}
	return f, names, err
}

// unknown looks at a node that is no lock. One with nothing in it says nothing about
// itself.
func (s *surveyor) unknown(ctx context.Context, f *found) (names []string, err error) {
	data, _, err := s.session.Get(ctx, f.path)
	if err != nil {
		return nil, err
	}
	names, stat, err := s.session.Children(ctx, f.path)
	if err != nil {
		return nil, err
	}
	switch permits := kazooPermits(data, names); {
	case stat.EphemeralOwner != 0:
		f.skip = "it belongs to a session and goes with it"
		return nil, nil
	case permits > 0:
		f.kazooSemaphore(permits, len(names))
		return nil, nil
	case len(names) == 0 && s.emptyAs != "":
		f.kind = kind.Lookup(s.emptyAs)
		f.params = f.kind.New()
		f.notes = append(f.notes, "Nobody uses it: -empty-as says what it is.")
		return nil, nil
	case len(names) == 0:
		return nil, nil
	}
	f.kind = kind.Namespace
	f.params = kind.Namespace.New()
	slices.Sort(names)
	return names, nil
}

// inside looks at the nodes in a namespace, and keeps their order.
func (s *surveyor) inside(ctx context.Context, f *found, names []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	children := make([]*found, len(names))
	var looks sync.WaitGroup
each:
	for i, name := range names {
		if f.path == "/" && name == "zookeeper" || name == ".locktree" {
			continue
		}
		select {
		case s.free <- struct{}{}:
		case <-ctx.Done():
			break each
		}
		looks.Go(func() {
			var err error
			children[i], err = s.look(ctx, kind.JoinPath(f.path, name))
			if err != nil && !errors.Is(err, zk.ErrNoNode) { // what is gone meanwhile is not there
				cancel(err)
			}
		})
	}
	looks.Wait()
	f.children = slices.DeleteFunc(children, func(c *found) bool { return c == nil })
	f.children = besideKazoo(f.children)
	return context.Cause(ctx)
}

// recognise takes the parameters from the contenders, as far as they show.
func (f *found) recognise(in *inspect.Report) {
	f.kind, f.params = in.Kind, in.Kind.New()
	writers := map[string]bool{}
	for _, c := range append(slices.Clone(in.Holders), in.Waiters...) {
		writers[c.Writer] = true
	}
	if len(writers) == 1 && writers["kazoo"] && !f.set("wire", string(kind.WireKazoo)) {
		f.notes = append(f.notes, "Its clients are kazoo's, whose names this type does not speak.")
	}
	if len(writers) > 1 {
		f.notes = append(f.notes, "Clients of several sorts use it. They exclude each other only where they use the same names.")
	}
	if writers["writelock"] {
		f.notes = append(f.notes, "Clients of ZooKeeper's own WriteLock use it, which count by other names.")
	}
	if f.kind == kind.Semaphore {
		f.set("permits", strconv.Itoa(max(1, len(in.Holders))))
		f.notes = append(f.notes, "The number of permits is not stored: this is how many are held now. Write the right one.")
	}
}

// set sets a parameter by its text when the kind has it and takes the value.
func (f *found) set(name, text string) bool {
	fields := f.params.Fields()
	i := slices.IndexFunc(fields, func(p kind.Field) bool { return p.Name == name })
	if i < 0 || len(fields[i].OneOf) > 0 && !slices.Contains(fields[i].OneOf, text) {
		return false
	}
	var v any = text
	if fields[i].Type == kind.TypeInt {
		n, err := strconv.Atoi(text)
		if err != nil {
			return false
		}
		v = n
	}
	return fields[i].Set(v) == nil
}

// lines list what was found, one node a line.
func (f *found) lines() []string {
	what := "unknown: nobody uses it"
	switch {
	case f.skip != "":
		what = "left out: " + f.skip
	case f.kind != nil:
		what = f.kind.Name
	}
	if f.inUse > 0 {
		what += fmt.Sprintf(", %d in its queue", f.inUse)
	}
	out := []string{strings.TrimRight(fmt.Sprintf("%-40s %s", view.Clean(f.path), view.Clean(what)), " ")}
	for _, c := range f.children {
		out = append(out, c.lines()...)
	}
	return out
}
