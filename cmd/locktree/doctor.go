package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

func doctorCommand(a *app) *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"check", "health", "diagnose"},
		Short:      "Check servers, locks and access rights",
		Long: "doctor checks, on each server, the conditions that keep two programs from believing they hold\n" +
			"the same lock: session timeout, tick, syncLimit, versions with known faults, clocks, and that\n" +
			"its data is the leader's. Then it checks each declared lock: that it exists, that this\n" +
			"connection may use it, and that it contains only contenders. If the ensemble block declares\n" +
			"admins and readers, doctor checks the rights of this connection: an administrator needs all\n" +
			"rights on every node of the stack, and a reader needs to read them. It tells everybody else\n" +
			"whom to ask. Of a family of keyed locks it checks up to 200 keys: that their nodes have the access\n" +
			"list of the family, and that none is left over. It counts the nodes that locks without a\n" +
			"declaration left below the root.\n\n" +
			"For all servers together it reports the size of the largest session, who has the most\n" +
			"connections, and when the transaction ids run out. Some of this needs the four-letter words\n" +
			"dump, cons and mntr.\n\n" +
			"It writes nothing, and exits with 1 if a condition fails. It cannot check what no program can\n" +
			"find out, such as whether the clocks of all machines run at the right rate.\n\n" +
			"Under \"lease\" it says what the session timeout means here, for programs and for jobs: a client that\n" +
			"hears nothing gives up its leases after half of it; the limits of the servers and the elections\n" +
			"they have seen come from the words conf and mntr.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			defer a.Interruptible(c.Context())()
			cfg, err := a.loader().Load(flags.inputs)
			if err != nil {
				return err
			}
			var found lockview.Checkup
			for _, e := range cfg.Ensembles {
				stop := a.During("Checking ensemble "+strconv.Quote(e.Name), nil)
				of, err := a.checkUp(c.Context(), e)
				stop()
				if c.Context().Err() != nil || isA[*view.Failure](err) {
					return cmp.Or(err, context.Cause(c.Context()))
				}
				of.Err = err
				found = append(found, of)
			}
			a.Show(found)
			if err := found.Err(); err != nil {
				return err
			}
			if found.Count(check.Fails) > 0 {
				return exit.With(exit.Failed)
			}
			return nil
		},
	}
	flags.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document")
	return c
}

// maxLookedAt is how many locks doctor checks.
const maxLookedAt = 5000

// serversOf are the servers of an ensemble one by one. For SRV records, they are those that the records name now.
func serversOf(ctx context.Context, e *config.Ensemble) (out []string) {
	for _, server := range e.Servers {
		name, ok := strings.CutPrefix(server, "dns-srv://")
		if !ok {
			out = append(out, server)
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, stack.SessionWithin(e))
		_, records, _ := net.DefaultResolver.LookupSRV(bounded, "", "", name)
		cancel()
		for _, r := range records {
			out = append(out, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		if len(records) == 0 { // the look at it says why
			out = append(out, server)
		}
	}
	return out
}

// checkUp looks at one ensemble.
func (a *app) checkUp(ctx context.Context, e *config.Ensemble) (lockview.CheckupOf, error) {
	of := lockview.CheckupOf{Ensemble: e.Name, Root: e.Root}
	for _, server := range serversOf(ctx, e) {
		one := *e
		one.Servers = []string{server}
		conditions, err := a.checkServer(ctx, &one)
		if err != nil {
			return of, err
		}
		of.Servers = append(of.Servers, lockview.CheckupServer{Server: server, Conditions: conditions})
	}
	client, err := a.loader().Connect(ctx, e, true)
	if errors.Is(err, recipes.ErrUnreachable) && ctx.Err() == nil {
		// Why is said of each server already, and other ensembles are looked at all the same.
		of.Together = []check.Condition{{Name: "connection", Verdict: check.Fails, What: "no server can be used from here",
			Why: "programs that can use none either take no lock, and lose what they hold within a session timeout", Next: "see what is said of each server"}}
		return of, nil
	}
	if err != nil {
		return of, err
	}
	defer client.Close()
	snap, err := scan.Look(ctx, client, scan.Options{Prefix: e.Root, Reads: maxLookedAt})
	if err != nil {
		return of, err
	}
	of.Together = check.Ensemble(snap)
	of.Empty = snap.Empty
	found, err := checkup.Stack(ctx, client, e.Tree, maxLookedAt)
	if err == nil {
		of.Report = *found
	}
	return of, err
}

// checkServer looks at one server. That it cannot be reached is a finding.
func (a *app) checkServer(ctx context.Context, e *config.Ensemble) ([]check.Condition, error) {
	client, err := a.loader().Connect(ctx, e, true)
	switch {
	case isA[*view.Failure](err) || err != nil && ctx.Err() != nil: // it is not the server's
		return nil, err
	case err != nil:
		return []check.Condition{{Name: "connection", Verdict: check.Fails, What: err.Error(),
			Why: "clients that try this server lose time, and if it is down, the ensemble tolerates one failure fewer", Next: "check that it is running, or remove it from the list"}}, nil
	}
	defer client.Close()
	return check.Client(ctx, client)
}
