package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/evict"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// evicting are the options of revoke and break.
type evicting struct {
	treeFlags
	breaks   bool
	holder   string
	key      keyFlag
	message  messageFlag
	approved bool
}

func revokeCommand(a *app) *cobra.Command {
	return a.evictCommand(&evicting{}, &cobra.Command{
		Use:   "revoke {ADDRESS | PATH}",
		Short: "Ask a holder to give a lock back",
		Long: "revoke asks the holder of a lock to give it back, after a question. The holder keeps the lock until\n" +
			"it does. A program of this library has the context of its lease cancelled. One of Curator obeys if it\n" +
			"made its lock revocable; others ignore it. \"locktree break\" takes the lock away.\n\n" + whoToEvict,
	})
}

func breakCommand(a *app) *cobra.Command {
	return a.evictCommand(&evicting{breaks: true}, &cobra.Command{
		Use:        "break {ADDRESS | PATH}",
		SuggestFor: []string{"evict", "kill", "unlock", "force-unlock", "steal"},
		Short:      "Take a lock away from one holder",
		Long: "break removes one holder from a lock, or one waiter from its queue, after a question: all its\n" +
			"permits, and the other locks that it took in the same transaction, which it lists. All others keep\n" +
			"their places. Try \"locktree revoke\" first, and end the program if you can: it is not told to stop,\n" +
			"and keeps running until it notices. Only stores that check fencing tokens refuse its late writes.\n\n" +
			"break reads the holder again after the answer, so it removes no later one. It needs the right to\n" +
			"delete in the lock's node.\n\n" + whoToEvict,
	})
}

// whoToEvict says how the two commands find the holder.
const whoToEvict = "A lock with one holder needs no -holder. Otherwise -holder names a holder or waiter by its id, session,\n" +
	"token or node, as \"locktree status PATH\" shows them. With -servers, or a PATH and ZOOKEEPER_SERVERS, no\n" +
	"configuration is read. The history of the stack that declares the lock records who did it, and why\n" +
	"(-message), in the same transaction, if we may write there."

func (a *app) evictCommand(f *evicting, c *cobra.Command) *cobra.Command {
	c.Args = atMost(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(c, "Lock missing", "Say which lock: its address, or its path.")
		}
		defer a.Interruptible(c.Context())()
		cfg, err := f.configured(c, a.loader(), args[0])
		if err != nil {
			return err
		}
		return a.loader().ConnectAll(c.Context(), cfg, true, func(s *stack.Stack) error { return a.evict(c.Context(), s, f) })
	}
	f.loadFlags.register(c)
	c.Flags().StringVar(&f.servers, "servers", "", "on these `SERVERS`, without a configuration: zk1:2181,zk2:2181")
	c.Flags().StringVar(&f.holder, "holder", "", "whom, if there are several: an `ID`, a session, a token or the name of a node")
	c.Flags().BoolVar(&f.approved, "auto-approve", false, "do not ask for approval")
	f.key.register(c)
	f.message.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document; needs -auto-approve")
	c.ValidArgsFunction = a.firstAddress(&f.loadFlags, cobra.ShellCompDirectiveNoFileComp)
	return c
}

// evict finds the one who is meant, shows who that is, asks, and does it.
func (a *app) evict(ctx context.Context, s *stack.Stack, f *evicting) error {
	i, in, err := s.LockAt(ctx, f.prefix, f.key.Key)
	if err != nil {
		return err
	}
	one, err := chosen(in, f.holder)
	if err != nil {
		return err
	}
	switch unread := one.Token == 0; {
	case unread:
		return s.Unread(ctx, i, []string{one.Path}, one.Path)
	case one.Session == 0 && !f.breaks:
		return view.Failf("Nobody to ask", "%s belongs to no session, so no program would answer. \"locktree break\" removes it.", one.Path)
	}
	found := lockview.Eviction{Ensemble: s.Ensembles[i].Name, Addresses: stack.Servers(s.Config)[i], Breaks: f.breaks, In: in}
	err = s.On(ctx, i, func(*direct.Session) (err error) {
		within := "/"
		if !f.breaks || in.Kind.Permits != nil { // no set has permits
			within = in.Path
		}
		found.Snapshot, err = scan.Look(ctx, s.Clients[i], scan.Options{Prefix: within, Reads: maxReads})
		return err
	})
	if err != nil {
		return err
	}
	if f.breaks {
		one.Set(found.Snapshot)
	}
	if found.Acquisition = one; a.JSON == 0 {
		a.Show(found)
	}
	if err := a.confirmEviction(ctx, f); err != nil {
		return err
	}
	client, err := a.loader().Connect(ctx, s.Ensembles[i], false) // the other one cannot write
	if err != nil {
		return err
	}
	defer client.Close()
	do := evict.Revoke
	if f.breaks {
		do = evict.Break
	}
	if found.Done, err = do(ctx, client, a.signed(f.message), in, one); err != nil {
		return stack.Denied(ctx, client, err)
	}
	a.Show(found)
	return nil
}

func (a *app) confirmEviction(ctx context.Context, f *evicting) error {
	what, question := "Revoke", "Do you want to ask for it?"
	switch {
	case f.approved:
		return nil
	case a.JSON != 0 || !screen.IsTerminal(a.Stdin):
		return view.Failf("Approval needed", "Nobody can be asked: standard input is no terminal, or -json was given. Add -auto-approve.")
	case f.breaks:
		what, question = "Break", "Do you really want to remove it?\n  There is no undo."
	}
	return a.Approve(ctx, what, question+"\n  Only 'yes' will be accepted to approve.", "")
}

// chosen is the acquisition that the operator means.
func chosen(in *inspect.Report, holder string) (evict.Acquisition, error) {
	all := evict.Acquisitions(in)
	meant := slices.DeleteFunc(slices.Clone(all), func(a evict.Acquisition) bool { return holder == "" && a.Queued || holder != "" && !a.Is(holder) })
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case slices.ContainsFunc(in.Junk, func(path string) bool { return path == holder || strings.HasSuffix(path, "/"+holder) }) && holder != "":
		return evict.Acquisition{}, view.Failf("Not a contender", "%s in %s holds nothing and waits for nothing: it is no contender of any client. Delete it with another client if nobody needs it.", holder, in.Path)
	case len(all) == 0:
		return evict.Acquisition{}, view.Failf("Nobody is there", "Nobody holds %s, and nobody waits for it.", in.Path)
	case len(meant) > 1:
		return evict.Acquisition{}, view.Failf("Several are meant", "-holder says whom of these in %s you mean:\n%s", in.Path, listed(meant))
	case holder == "":
		return evict.Acquisition{}, view.Failf("Nobody holds the lock", "Nobody holds %s. -holder says whose place in the queue you mean:\n%s", in.Path, listed(all))
	}
	return evict.Acquisition{}, view.Failf("No such holder", "%q neither holds %s nor waits for it. There are:\n%s", holder, in.Path, listed(all))
}

// maxListed bounds those that an error lists.
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
