package survey

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/locktree/locktree/recipes/inspect/internal/node"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Found is one node of a surveyed tree, and what it seems to be.
type Found struct {
	Path   string
	Kind   *kind.Kind // nil if nothing reveals the kind
	Params kind.Params
	ACL    kind.List
	Inside []*Found // the node's children, if the node is not a lock
	Notes  []string // advice for the person who declares the node
	Skip   string   // why the node cannot be declared; "" if it can be declared
	// Stops says that an apply that imports this node stops; the notes say why. It is false if Surveyor.Idle gives the node a kind.
	Stops bool
	InUse int // holders and waiters

	kazoo   bool // the node is a kazoo semaphore, or a counter
	permits int  // the permits of a kazoo semaphore that may be idle
}

// Surveyor surveys a tree that programs have made without a declaration.
type Surveyor struct {
	Stack string // the survey skips each node that a stack declared; it looks below such a node only if it is a container of this stack
	// Idle returns the kind of an empty node. If Idle is nil, or returns nil, the kind stays unknown.
	Idle func(path string) *kind.Kind
	Most int // the largest number of nodes to read
}

// Survey looks at the node at path and at all nodes below it. It recognises locks by the names of their contenders. If there are locks
// below a node, Survey takes the node for a namespace. The result cut reports that there are more nodes than o.Most. The result top is
// complete even if the error says that a node holds parts of two types of locks.
func (o Surveyor) Survey(ctx context.Context, c session.Source, path string) (top *Found, cut bool, err error) {
	s, err := session.Live(ctx, c)
	if err != nil {
		return nil, false, err
	}
	w := walk{o: o, s: s}
	n, err := w.readTree(ctx, path)
	if err != nil {
		return nil, false, err
	}
	return n.findings(o), w.cut, errors.Join(w.misfits...)
}

// Around looks at the nodes between root and inner; a survey has found the node inner. It returns the topmost of them, or inner if
// there are none. A declaration of inner needs these nodes as containers.
func (o Surveyor) Around(ctx context.Context, c session.Source, inner *Found, root string) (*Found, error) {
	s, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	w := walk{o: o, s: s}
	for path := kind.ParentPath(inner.Path); inner.Path != root && path != root && kind.Below(path, root); path = kind.ParentPath(path) {
		n, err := w.look(ctx, path)
		if err != nil {
			return nil, err
		}
		around := n.findings(o)
		around.is(kind.Namespace)
		around.Inside = []*Found{inner}
		inner = around
	}
	return inner, nil
}

// findings returns what was found at a node and below it.
func (n *visitedNode) findings(o Surveyor) *Found {
	if n.found == nil {
		o.judge(n)
	}
	f := n.found
	for _, sub := range n.inside {
		f.Inside = append(f.Inside, sub.findings(o))
	}
	o.besideKazoo(f.Inside)
	if n.Payload == nil && f.Kind == kind.Namespace && !slices.ContainsFunc(f.Inside, func(sub *Found) bool { return sub.Kind != nil }) {
		f.Kind, f.Params = nil, nil
		member := func(sub *visitedNode) bool { return sub.Stat != nil && sub.Stat.EphemeralOwner != 0 }
		switch {
		case len(n.inside) > 0 && !slices.ContainsFunc(n.inside, func(sub *visitedNode) bool { return !member(sub) }):
			f.Skip, f.Inside = "its children are members of a group, a party, a service or a barrier: they end with their sessions and have no number", nil
		case !slices.ContainsFunc(f.Inside, func(sub *Found) bool { return sub.Skip == "" }):
			f.Skip = "there is no lock below it"
		}
	}
	return f
}

// judge decides what a node is, and whether to look at its children.
func (o Surveyor) judge(n *visitedNode) (enter bool) {
	f := &Found{Path: n.Path, ACL: n.acl, InUse: len(n.Holders) + len(n.Waiters)}
	n.found = f
	switch declared := n.Payload; {
	case n.closed:
		f.Skip = "this connection may not read it"
		return false
	case n.misfit != nil:
		f.Skip = n.misfit.Error()
		return false
	case declared != nil && declared.Owner.Stack != "":
		f.Skip = fmt.Sprintf("it already is %s of the stack %q", declared.Owner.Addr, declared.Owner.Stack)
		return n.Kind.Container && declared.Owner.Stack == o.Stack
	case declared != nil:
		f.Kind, f.Params = n.Kind, declared.Params
		return n.Kind.Container
	case n.Kind != nil && n.Kazoo == 0:
		f.recognise(&n.Node)
		return false
	}
	what := ""
	if len(n.Children) > 0 {
		what = otherRecipe(n.Children)
	}
	switch {
	case n.Stat.EphemeralOwner != 0:
		f.Skip = "it is ephemeral: it belongs to a session and ends with it"
	case n.Kazoo > 0:
		f.kazooSemaphore(n.Kazoo, len(n.Children))
	case what != "":
		f.Skip = "it is " + what
	case len(n.Children) > 0:
		f.is(kind.Namespace)
		return true
	case len(n.Data) > 0:
		f.Skip = holdsData
	case o.Idle != nil && o.Idle(n.Path) != nil:
		f.is(o.Idle(n.Path))
		f.Notes = append(f.Notes, "No program uses it: -kind says what it is.")
	}
	return false
}

// holdsData describes a node that may be a counter, a barrier or a shared value: the node of an idle lock is empty.
const holdsData = "another program keeps data in it, which the node of an idle lock does not have"

// otherRecipes are recipes other than locks. The names of a node's children show which recipe uses the node.
var otherRecipes = []struct {
	what  string
	child *regexp.Regexp
}{
	{"a queue of Curator's", regexp.MustCompile(`^(queue-.*|qn-)\d{10}$`)}, // DistributedQueue and its variants, SimpleDistributedQueue
	{"a queue of kazoo's", regexp.MustCompile(`^entry-\d+-\d{10}$`)},
	{"a party of kazoo's", regexp.MustCompile(`^[0-9a-f]{32}-?__party__`)},
}

// otherRecipe names the recipe, other than a lock, whose node has such children; "" if none is known.
func otherRecipe(children []string) string {
	for _, r := range otherRecipes {
		if !slices.ContainsFunc(children, func(name string) bool { return !r.child.MatchString(name) }) {
			return r.what
		}
	}
	if slices.Equal(slices.Sorted(slices.Values(children)), []string{"entries", "taken"}) {
		return "a locking queue of kazoo's"
	}
	return ""
}

func (f *Found) is(k *kind.Kind) { f.Kind, f.Params = k, k.New() }

// recognise sets the parameters that the contenders reveal.
func (f *Found) recognise(in *node.Node) {
	f.is(in.Kind)
	writers := map[string]bool{}
	for _, c := range append(slices.Clone(in.Holders), in.Waiters...) {
		writers[c.Writer] = true
	}
	if len(writers) == 1 && writers["kazoo"] && !f.set("wire", kind.WireKazoo) {
		f.Notes = append(f.Notes, "Its clients use kazoo, whose names for contenders this type does not know.")
	}
	if len(writers) > 1 {
		f.Notes = append(f.Notes, "Clients of different libraries use it. They exclude each other only where they use the same names.")
	}
	if writers["writelock"] {
		f.Notes = append(f.Notes, "Clients of ZooKeeper's own WriteLock use it, which does not see contenders of other libraries.")
	}
	if f.set("permits", max(1, len(in.Holders))) {
		f.Notes = append(f.Notes, "The number of permits is not stored: this is how many are held now. Write the right number.")
	}
}

// set sets a parameter. It reports whether the kind has this parameter and accepts the value.
func (f *Found) set(name string, v any) bool {
	fields := f.Params.Fields()
	i := slices.IndexFunc(fields, func(p kind.Field) bool { return p.Name == name })
	return i >= 0 && fields[i].Set(v) == nil
}

// Lines lists what was found, one line per node.
func (f *Found) Lines() []string {
	what := "unknown: no program uses it"
	switch {
	case f.Skip != "":
		what = "left out: " + f.Skip
	case f.Kind != nil:
		what = f.Kind.Name
	case len(f.Inside) > 0:
		what = "unknown: no program uses what is in it"
	}
	if f.InUse > 0 && !f.kazoo {
		what += fmt.Sprintf(", %d in its queue", f.InUse)
	}
	out := []string{fmt.Sprintf("%-40s %s", kind.Visible(f.Path), kind.Visible(what))}
	for _, sub := range f.Inside {
		out = append(out, sub.Lines()...)
	}
	return out
}
