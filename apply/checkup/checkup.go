// Package checkup checks the locks of a stack, and whether the connection has the rights that it needs there.
//
//	report, err := checkup.Stack(ctx, client, e.Tree, 100) // e is one of the Ensembles of config.Load
//
// A [Report] lists the findings, as conditions of package inspect/check. [Administrators] finds whom to ask for a right.
//
// The package relies on read for the tree, on inspect for single locks and on plan for the rights that a node needs. It writes
// nothing.
package checkup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/kind"
)

// Report is what [Stack] found.
type Report struct {
	Locks   []check.Condition // the findings about locks, the ensemble's id and the connection's role
	Checked int               // the number of locks checked
	Cut     bool              // there are more
}

// Stack checks the locks of a stack: whether they exist, whether the connection may use them, and whether they contain nodes that
// are not contenders. If the stack declares its administrators and readers, it checks the rights that the connection needs as one
// of them. It writes nothing. limit bounds the locks that it checks if no administrators are declared.
func Stack(ctx context.Context, c *recipes.Client, declared *plan.Tree, limit int) (*Report, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	if err := read.Recognize(ctx, s, declared); err != nil {
		return nil, err
	}
	id, err := checkID(ctx, s, declared)
	if err != nil {
		return nil, err
	}
	look := checkOpen
	if declared.Intent.Access != nil {
		look = checkDeclared
	}
	out, err := look(ctx, c, declared, limit)
	if err == nil {
		out.Locks = append(id, out.Locks...)
	}
	return out, err
}

// checkOpen checks a stack that does not declare who may use it.
func checkOpen(ctx context.Context, c *recipes.Client, declared *plan.Tree, limit int) (*Report, error) {
	var paths []string
	for _, n := range declared.Nodes {
		if !n.Kind().Container {
			paths = append(paths, n.Path)
		}
	}
	out := &Report{Cut: len(paths) > limit}
	paths = paths[:min(len(paths), limit)]
	out.Checked = len(paths)
	conditions, err := check.Client(ctx, c, paths...)
	if err != nil {
		return nil, err
	}
	for i, access := range conditions[len(conditions)-len(paths):] { // the conditions about access come after those of the server
		if access.Verdict != check.Holds {
			out.Locks = append(out.Locks, access)
		}
		in, err := inspect.Lock(ctx, c, paths[i])
		switch {
		case err == nil:
			out.foreign(paths[i], in.Junk)
			out.mayVanish(paths[i], in.Payload)
			if err := out.keys(ctx, c, paths[i], in.Payload); err != nil {
				return nil, err
			}
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth): // the conditions about access report ErrNoNode and ErrNoAuth
			return nil, err
		}
	}
	return out, nil
}

func (k *Report) foreign(path string, junk []string) {
	if len(junk) > 0 {
		k.Locks = append(k.Locks, check.Condition{Name: "foreign nodes in " + path, Verdict: check.Unsure,
			What: fmt.Sprintf("%d: %s", len(junk), strings.Join(junk[:min(len(junk), 3)], ", ")),
			Why:  "they are no contenders: locks ignore them, and the lock cannot be deleted while they are there",
			Next: "find out whose they are, and delete them"})
	}
}

// mayVanish reports a lock whose node another program made.
func (k *Report) mayVanish(path string, p *kind.Payload) {
	if p != nil && p.Made == kind.MadeElsewhere {
		k.Locks = append(k.Locks, check.Condition{Name: "container " + path, Verdict: check.Unsure,
			What: "another program made its node, which may be a container: it was imported while programs used it",
			Why:  "the servers delete a container soon after the last program left, and programs of this library are refused until the next apply",
			Next: "run locktree apply when no program uses it, or locktree apply -replace=" + p.Owner.Addr + " -drain=10m, which waits for that"})
	}
}

// keys checks some keys of a family.
func (k *Report) keys(ctx context.Context, c *recipes.Client, path string, p *kind.Payload) error {
	if p == nil || p.Params.Kind().Key == nil {
		return nil
	}
	conditions, err := check.Keys(ctx, c, path)
	k.Locks = append(k.Locks, conditions...)
	return err
}

// checkDeclared checks all locks and the connection's rights by its declared role. An administrator needs the rights of an apply:
// READ, CREATE and DELETE on the root, all rights on the tool's own nodes, and those of access.Need on declared nodes. A reader
// needs READ.
func checkDeclared(ctx context.Context, c *recipes.Client, declared *plan.Tree, _ int) (*Report, error) {
	who, admin := standing(c, declared.Intent.Access)
	out := &Report{Locks: []check.Condition{who}}
	if who.Verdict == check.Fails {
		return out, nil
	}
	r := findings{c: c, admin: admin, at: map[string][]string{}}
	live, err := r.check(ctx, declared)
	if err != nil {
		return nil, err
	}
	for _, k := range r.found {
		k.Name = "access " + explain.Few(r.at[k.What], 3)
		k.Why = "plan and status read every node"
		if r.admin {
			k.Why = "an apply needs its rights on every node"
		}
		out.Locks = append(out.Locks, k)
	}
	for _, n := range declared.Nodes {
		if !n.Kind().Container {
			out.Checked++
		}
		there := live.Find(n.Path)
		if there == nil {
			continue
		}
		if there.Live.Usage != nil {
			out.foreign(n.Path, there.Live.Usage.Junk)
		}
		if there.Payload != nil && there.Payload.Owner.Stack == declared.Stack {
			out.mayVanish(n.Path, there.Payload)
			if err := out.keys(ctx, c, n.Path, there.Payload); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// standing finds the role of a connection in a stack. Only the servers know whether an address, or a name of a plug-in's
// scheme, is ours.
func standing(c *recipes.Client, set *plan.Access) (k check.Condition, admin bool) {
	me := strings.Join(failure.WhoWeAre(c), " and ")
	administers, maybeAdmin := set.Admins.Ours(c.Identities()...)
	reader, maybeReader := set.Readers.Ours(c.Identities()...)
	k = check.Condition{Name: "identity", Why: "the ensemble block says who may apply this stack (admins), and who may plan and look (readers)"}
	maybe := func(what, does string) {
		k.Verdict, k.Next = check.Unsure, does+" from where the servers know us as one"
		k.What = fmt.Sprintf("we are %s; only the servers know whether we are also one of the %s", me, what)
	}
	switch {
	case administers != 0:
		k.What = "we are " + me + ", an administrator of this stack"
	case reader != 0:
		k.What = "we are " + me + ", and may plan and look"
	case maybeAdmin != 0:
		maybe("administrators", "apply")
	case maybeReader != 0:
		maybe("readers", "plan")
	default:
		k.Verdict, k.What = check.Fails, "we are "+me+", neither an administrator of this stack nor a reader"
		k.Next = "present the credentials of one of them, or have " + strings.Join(slices.Compact(access.Names(set.Admins)), " or ") + " add us"
		if refusal.Namesake(c, slices.Concat(access.Names(set.Admins), access.Names(set.Readers))) {
			k.What, k.Next = k.What+"; "+refusal.WrongPassword, "check the password, which may have been changed since"
		}
	}
	return k, administers != 0 || reader == 0 && maybeAdmin != 0
}

// findings collects findings in access lists: the same finding on several nodes becomes one condition.
type findings struct {
	c     *recipes.Client
	admin bool // the connection is an administrator, otherwise a reader
	found []check.Condition
	at    map[string][]string // the nodes of a finding
}

func (r *findings) add(verdict check.Verdict, path, what, next string) {
	if r.at[what] = append(r.at[what], path); len(r.at[what]) == 1 {
		r.found = append(r.found, check.Condition{Verdict: verdict, What: what, Next: next})
	}
}

// judge compares a list with the needs of an administrator, or of a reader.
func (r *findings) judge(ctx context.Context, path string, list kind.List, need kind.Perm) {
	if !r.admin {
		need &= kind.PermRead
	}
	sure, maybe := list.Ours(r.c.Identities()...)
	if lacks := need &^ (sure | maybe); lacks != 0 {
		what, next := fmt.Sprintf("we are %s, and lack %q", strings.Join(failure.WhoWeAre(r.c), " and "), lacks), "ask an administrator of the node to grant it"
		if len(r.at[what]) == 0 { // ask for the administrators once per finding, not once per node
			if at, ask := Administrators(ctx, r.c, path); len(ask) > 0 {
				next = "have it granted by " + strings.Join(ask, " or ") + ", whom the access list of " + at + " names"
			}
		}
		r.add(check.Fails, path, what, next)
	}
}

// check looks at the tool's own nodes and at the declared ones.
func (r *findings) check(ctx context.Context, declared *plan.Tree) (*plan.Tree, error) {
	s, err := r.c.Session(ctx)
	if err != nil {
		return nil, err
	}
	tree, err := read.Tree(ctx, s, declared)
	if errors.Is(err, zk.ErrNoAuth) {
		r.judge(ctx, failure.RefusedAt(err), nil, kind.PermRead)
		return &plan.Tree{}, nil
	} else if err != nil {
		return nil, err
	}
	paths := []string{tree.Root, record.ScaffoldPath(tree.Root)}
	for _, path := range record.OwnPaths(tree.Root, tree.Stack) {
		paths = append(paths, kind.ParentPath(path), path)
	}
	for _, path := range paths {
		need := kind.PermAll
		if path == tree.Root { // the root may be another program's node
			need = kind.PermRead | kind.PermCreate | kind.PermDelete
		}
		for _, f := range tree.Frame {
			if f.Path == path { // a node that is closed to us has an empty list here
				r.judge(ctx, path, f.ACL, need)
			}
		}
	}
	for _, n := range declared.Nodes {
		switch live := tree.Find(n.Path); {
		case live == nil:
			r.add(check.Fails, n.Path, "it is declared, but its node does not exist", "run apply")
		case live.Live.Trouble == plan.TroubleUnreadable:
			r.judge(ctx, n.Path, nil, kind.PermRead)
		case live.Payload == nil || live.Payload.Owner.Stack != tree.Stack:
			r.add(check.Unsure, n.Path, "what is there is not this stack's", "run plan, which says what to do about it")
		default:
			r.judge(ctx, n.Path, live.ACL, access.Need(n.Kind()))
			if sure, maybe := live.Payload.ChildACL.Ours(r.c.Identities()...); (sure|maybe)&kind.PermRead == 0 && len(live.Payload.ChildACL) > 0 {
				r.add(check.Fails, n.Path, "this connection cannot read its contenders, so its holders and waiters are not known", "grant \"observe\" to us in its acl")
			}
		}
	}
	return tree, nil
}

// Administrators returns the identities that may change the access list of the node at path. If we may not read that list, it
// returns those for the nearest node above: these administrators most often know whom to ask.
func Administrators(ctx context.Context, c *recipes.Client, path string) (at string, who []string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := c.Session(ctx)
	for at = path; err == nil && at != "" && at != "/"; at = kind.ParentPath(at) {
		var acl []zk.ACL
		acl, _, err = s.GetACL(ctx, at)
		if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode) {
			err = nil
			continue
		}
		for _, a := range acl {
			if a.Perms&zk.PermAdmin != 0 && a.Scheme != "world" {
				who = append(who, access.Name(kind.ACL{Scheme: a.Scheme, ID: a.ID}))
			}
		}
		return at, who
	}
	return "", nil
}

// If an apply has written the ensemble's id and we may read it, checkID says which ensemble this is.
func checkID(ctx context.Context, s *direct.Session, declared *plan.Tree) ([]check.Condition, error) {
	id, _, err := read.EnsembleID(ctx, s, declared.Root)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return nil, nil
	case err != nil:
		return nil, refusal.Read(record.ScaffoldPath(declared.Root), err)
	case id == "": // no apply was here, or .locktree is another program's node
		return nil, nil
	}
	k := check.Condition{Name: "ensemble id", What: "it is " + id + ", as the ensemble block says",
		Why: "the same names may lead to other servers"}
	if declared.EnsembleID == "" {
		k.What = fmt.Sprintf("it is %s; with id = %q in the ensemble block, every other ensemble is refused", id, id)
	}
	return []check.Condition{k}, nil
}
