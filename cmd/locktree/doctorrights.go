package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// standing judges what a connection is to a stack, by what the ensemble block declares. Whether an address, or a name of
// a scheme of their own, is ours the servers alone know.
func standing(c *recipes.Client, access *plan.Access) (k inspect.Condition, admin bool) {
	me := strings.Join(whoWeAre(c), " and ")
	administers, maybeAdmin := granted(c, access.Admins)
	reader, maybeReader := granted(c, access.Readers)
	k = inspect.Condition{Name: "identity", Why: "the ensemble block says who may apply this stack (admins), and who may plan and look (readers)"}
	maybe := "we are " + me + "; whether we are one of the %s too, only the servers know"
	switch {
	case administers != 0:
		k.What = "we are " + me + ", an administrator of this stack"
	case reader != 0:
		k.What = "we are " + me + ", and may plan and look"
	case maybeAdmin != 0:
		k.Verdict, k.What, k.Next = inspect.VerdictUnsure, fmt.Sprintf(maybe, "administrators"), "apply from where the servers know us as one"
	case maybeReader != 0:
		k.Verdict, k.What, k.Next = inspect.VerdictUnsure, fmt.Sprintf(maybe, "readers"), "plan from where the servers know us as one"
	default:
		k.Verdict, k.What = inspect.VerdictFails, "we are "+me+", neither an administrator of this stack nor a reader"
		k.Next = "present the credentials of one of them, or have " + strings.Join(slices.Compact(plan.Names(access.Admins)), " or ") + " add us"
	}
	return k, administers != 0 || reader == 0 && maybeAdmin != 0
}

// granted adds up what a list gives the connection for certain, and what it may give. Servers hide digests from those
// without ADMIN: one of a user of ours counts as ours, unless it has ADMIN, with which we would be shown it.
func granted(c *recipes.Client, list []kind.ACL) (sure, maybe kind.Perm) {
	for _, a := range list {
		switch {
		case slices.ContainsFunc(c.Identities(), func(id session.Identity) bool {
			user, _, _ := strings.Cut(id.ID, ":")
			return a.Scheme == id.Scheme && (a.ID == id.ID || a.Scheme == "digest" && a.ID == user+":x" && a.Perms&kind.PermAdmin == 0)
		}):
			sure |= a.Perms
		case !plan.Exact(a):
			maybe |= a.Perms
		}
	}
	return sure, maybe
}

// checkDeclared judges the connection by what the ensemble block declares it to be: an administrator needs everything,
// a reader needs READ everywhere.
func checkDeclared(ctx context.Context, c *recipes.Client, e *config.Ensemble, of *view.CheckupOf) error {
	who, admin := standing(c, e.Tree.Intent.Access)
	of.Locks = append(of.Locks, who)
	if who.Verdict == inspect.VerdictFails {
		return nil
	}
	r := rights{c: c, admin: admin, at: map[string][]string{}}
	tree, err := r.check(ctx, e)
	if err != nil {
		return err
	}
	for _, k := range r.found {
		k.Name = "access " + view.FirstFew(r.at[k.What])
		k.Why = "plan, status and top read every node"
		if r.admin {
			k.Why = "an apply needs its rights on every node"
		}
		of.Locks = append(of.Locks, k)
	}
	for _, n := range e.Tree.Nodes {
		if !n.Kind().Container {
			of.Checked++
		}
		if live := tree.Find(n.Path); live != nil && live.Live.Usage != nil && len(live.Live.Usage.Junk) > 0 {
			of.Locks = append(of.Locks, foreign(n.Path, live.Live.Usage.Junk))
		}
	}
	return nil
}

// rights are what doctor finds in access lists: the same on several nodes is one condition.
type rights struct {
	c     *recipes.Client
	admin bool // else a reader
	found []inspect.Condition
	at    map[string][]string // the nodes of a finding
}

func (r *rights) add(verdict inspect.Verdict, path, what, next string) {
	if r.at[what] = append(r.at[what], path); len(r.at[what]) == 1 {
		r.found = append(r.found, inspect.Condition{Verdict: verdict, What: what, Next: next})
	}
}

// judge compares a list with what an administrator needs there, or a reader.
func (r *rights) judge(ctx context.Context, path string, list []kind.ACL, need kind.Perm) {
	if !r.admin {
		need &= kind.PermRead
	}
	sure, maybe := granted(r.c, list)
	if lacks := need &^ (sure | maybe); lacks != 0 {
		what, next := fmt.Sprintf("we are %s, and lack %q", strings.Join(whoWeAre(r.c), " and "), lacks), "have it granted by who administers the node"
		if len(r.at[what]) == 0 { // it is asked once, not for each of a thousand nodes
			if at, ask := administrators(ctx, r.c, path); len(ask) > 0 {
				next = "have it granted by " + strings.Join(ask, " or ") + ", whom the access list of " + at + " names"
			}
		}
		r.add(inspect.VerdictFails, path, what, next)
	}
}

// checkOwn looks at the root and at the tool's own nodes.
func (r *rights) checkOwn(ctx context.Context, tree *plan.Tree) {
	index, lock := plan.IndexPath(tree.Root, tree.Stack), plan.LockPath(tree.Root, tree.Stack)
	for _, path := range []string{tree.Root, plan.ScaffoldPath(tree.Root), kind.ParentPath(index), index, kind.ParentPath(lock), lock} {
		need := kind.PermAll
		if path == tree.Root { // which may be somebody else's
			need = kind.PermRead | kind.PermCreate | kind.PermDelete
		}
		for _, f := range tree.Frame {
			if f.Path == path { // of one that is closed to us, the list is empty
				r.judge(ctx, path, f.ACL, need)
			}
		}
	}
}

// check looks at the tool's own nodes and at the declared ones.
func (r *rights) check(ctx context.Context, e *config.Ensemble) (*plan.Tree, error) {
	s, err := r.c.Session(ctx)
	if err != nil {
		return nil, err
	}
	tree, err := apply.Read(ctx, s, e.Tree)
	if errors.Is(err, zk.ErrNoAuth) {
		r.judge(ctx, refusedAt(err), nil, kind.PermRead)
		return &plan.Tree{}, nil
	} else if err != nil {
		return nil, err
	}
	r.checkOwn(ctx, tree)
	for _, n := range e.Tree.Nodes {
		switch live := tree.Find(n.Path); {
		case live == nil:
			r.add(inspect.VerdictFails, n.Path, "it is declared, and not there", "run apply")
		case live.Live.Trouble == plan.TroubleUnreadable:
			r.judge(ctx, n.Path, nil, kind.PermRead)
		case live.Payload == nil || live.Payload.Owner.Stack != tree.Stack:
			r.add(inspect.VerdictUnsure, n.Path, "what is there is not this stack's", "run plan, which says what to do about it")
		default:
			r.judge(ctx, n.Path, live.ACL, plan.Need(n.Kind()))
			if sure, maybe := granted(r.c, live.Payload.ChildACL); (sure|maybe)&kind.PermRead == 0 && len(live.Payload.ChildACL) > 0 {
				r.add(inspect.VerdictFails, n.Path, "we may not read its contenders: who holds and waits is not to be seen", "grant \"observe\" to us in its acl")
			}
		}
	}
	return tree, nil
}
