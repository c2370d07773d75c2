package change

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/apply/evict"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// Eviction names a lock, and one of its acquisitions to end.
type Eviction struct {
	Path        string
	Key         stack.Key
	Holder      string // an id, a session, a token or the name of a node; "" is the only holder
	Breaks      bool   // the lock is taken away; otherwise its holder is asked
	AutoApprove bool
	JSON        bool // one document is the whole output
	NoInput     bool // there is no terminal to ask at
	Author      history.Author
}

// Evict finds the acquisition, shows it, asks, and ends it.
func Evict(ctx context.Context, h Host, o Eviction, l *stack.Loader, s *stack.Stack) error {
	i, in, err := s.LockAt(ctx, o.Path, o.Key)
	if err != nil {
		return err
	}
	one, err := chosen(in, o.Holder)
	if err != nil {
		return err
	}
	switch unread := one.Token == 0; {
	case unread:
		return s.Unread(ctx, i, []string{one.Path}, one.Path)
	case one.Session == 0 && !o.Breaks:
		return view.Failf("No program to ask", "%s belongs to no session, so no program would answer. \"locktree break\" removes it.", one.Path)
	}
	found := lockview.Eviction{Ensemble: s.Config.Ensembles[i].Name, Addresses: stack.Servers(s.Config)[i], Breaks: o.Breaks, In: in}
	err = s.On(ctx, i, func(*direct.Session) (err error) {
		within := "/"
		if !o.Breaks || in.Kind.Permits != nil { // a semaphore cannot be one of several locks taken together
			within = in.Path
		}
		found.Snapshot, err = scan.Look(ctx, s.Clients[i], scan.Options{Prefix: within, Reads: stack.MaxReads})
		return err
	})
	if err != nil {
		return err
	}
	if o.Breaks {
		one.Set(found.Snapshot)
	}
	if found.Acquisition = one; !o.JSON {
		h.Show(found)
	}
	if err := o.confirm(ctx, h); err != nil {
		return err
	}
	client, err := l.Connect(ctx, s.Config.Ensembles[i], false) // the client of s only reads
	if err != nil {
		return err
	}
	defer client.Close()
	do := evict.Revoke
	if o.Breaks {
		do = evict.Break
	}
	if found.Done, err = do(ctx, client, o.Author, in, one); err != nil {
		return stack.Denied(ctx, client, err)
	}
	h.Show(found)
	return nil
}

func (o Eviction) confirm(ctx context.Context, h Host) error {
	what, question := "Revoke", "Do you want to ask for it?"
	switch {
	case o.AutoApprove:
		return nil
	case o.JSON || o.NoInput:
		return view.Failf("Approval needed", "Approval needs a terminal, and standard input is none, or -json was given. Add -auto-approve.")
	case o.Breaks:
		what, question = "Break", "Do you really want to remove it?\n  There is no undo."
	}
	return h.Approve(ctx, what, question+"\n  Only 'yes' will be accepted to approve.", "")
}

// chosen is the acquisition that the operator means.
func chosen(in *inspect.Report, holder string) (evict.Acquisition, error) {
	all := evict.Acquisitions(in)
	meant := slices.DeleteFunc(slices.Clone(all), func(a evict.Acquisition) bool { return holder == "" && a.Queued || holder != "" && !a.Is(holder) })
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case slices.ContainsFunc(in.Junk, func(path string) bool { return path == holder || strings.HasSuffix(path, "/"+holder) }) && holder != "":
		return evict.Acquisition{}, view.Failf("Not a contender", "%s in %s holds nothing and waits for nothing: it is no contender of any client. If no program needs it, delete it with another client.", holder, in.Path)
	case len(all) == 0:
		return evict.Acquisition{}, view.Failf("No contender", "%s has neither a holder nor a waiter.", in.Path)
	case len(meant) > 1:
		return evict.Acquisition{}, view.Failf("Several holders", "Name one of these in %s with -holder:\n%s", in.Path, listed(meant))
	case holder == "":
		return evict.Acquisition{}, view.Failf("No holder", "%s has no holder. Name a waiter with -holder:\n%s", in.Path, listed(all))
	}
	return evict.Acquisition{}, view.Failf("No such holder", "%q neither holds %s nor waits for it. There are:\n%s", holder, in.Path, listed(all))
}

// maxListed bounds the acquisitions that an error lists.
const maxListed = 20

func listed(all []evict.Acquisition) string {
	var lines []string
	for i, one := range all {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("  and %d more", len(all)-i))
			break
		}
		role := "held by"
		if one.Queued {
			role = "waiting"
		}
		lines = append(lines, fmt.Sprintf("  %s  %s, token %d, node %s", role, one.Party, one.Token, kind.Visible(one.Name)))
	}
	return strings.Join(lines, "\n")
}
