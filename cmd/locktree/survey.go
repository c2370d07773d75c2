package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
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
	inUse    int      // holders and waiters
}

// surveyor walks a subtree.
type surveyor struct {
	client  *recipes.Client
	session *recipes.Session
	emptyAs string
	seen    int
}

func surveyTree(ctx context.Context, c *recipes.Client, path, emptyAs string) (*found, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	if err := kind.ValidatePath(path); err != nil {
		return nil, view.Failf("Illegal path", "-from=%s: %v.", path, err)
	}
	f, err := (&surveyor{client: c, session: s, emptyAs: emptyAs}).look(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, view.Failf("Nothing there", "The ensemble has no node %s.", path)
	}
	return f, err
}

func (s *surveyor) look(ctx context.Context, path string) (*found, error) {
	if s.seen++; s.seen > maxSurvey {
		return nil, view.Failf("Too many nodes", "There are more than %d nodes below -from. Import a smaller subtree at a time.", maxSurvey)
	}
	f := &found{path: path}
	in, err := s.client.Inspect(ctx, path)
	if errors.Is(err, zk.ErrNoAuth) {
		f.skip = "we may not read it"
		return f, nil
	}
	if err != nil {
		return nil, err
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
	case in.Payload != nil && !in.Kind.Container:
		f.kind, f.params = in.Kind, in.Payload.Params
	case in.Kind != nil && !in.Kind.Container:
		f.recognise(in)
	default:
		return f, s.inside(ctx, f)
	}
	return f, nil
}

// inside looks at what stands in a node that is no lock. A node with nothing in it
// says nothing about itself.
func (s *surveyor) inside(ctx context.Context, f *found) error {
	names, stat, err := s.session.Children(ctx, f.path)
	if err != nil {
		return err
	}
	switch {
	case stat.EphemeralOwner != 0:
		f.skip = "it belongs to a session and goes with it"
		return nil
	case len(names) == 0 && s.emptyAs != "":
		f.kind = kind.Lookup(s.emptyAs)
		f.params = f.kind.New()
		f.notes = append(f.notes, "Nobody uses it: -empty-as says what it is.")
		return nil
	case len(names) == 0:
		return nil
	}
	f.kind = kind.Namespace
	f.params = kind.Namespace.New()
	slices.Sort(names)
	for _, name := range names {
		if f.path == "/" && name == "zookeeper" || name == ".locktree" {
			continue
		}
		child, err := s.look(ctx, kind.JoinPath(f.path, name))
		if errors.Is(err, zk.ErrNoNode) {
			continue // gone meanwhile
		}
		if err != nil {
			return err
		}
		f.children = append(f.children, child)
	}
	return nil
}

// recognise takes the parameters from the contenders, as far as they show.
func (f *found) recognise(in *recipes.Inspection) {
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
