package stack

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// maxLookedAt bounds the reads of one look, and the locks that doctor checks if no administrators are declared.
const maxLookedAt = 5000

// serversOf returns the servers of an ensemble one by one. For SRV records, it returns the servers that the records name now.
func serversOf(ctx context.Context, e *config.Ensemble) (out []string) {
	for _, server := range e.Servers {
		name, ok := strings.CutPrefix(server, "dns-srv://")
		if !ok {
			out = append(out, server)
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, SessionWithin(e))
		_, records, _ := net.DefaultResolver.LookupSRV(bounded, "", "", name)
		cancel()
		for _, r := range records {
			out = append(out, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		if len(records) == 0 { // the look at this address reports why
			out = append(out, server)
		}
	}
	return out
}

// CheckUp looks at one ensemble.
func CheckUp(ctx context.Context, l *Loader, e *config.Ensemble) (lockview.CheckupOf, error) {
	of := lockview.CheckupOf{Ensemble: e.Name, Root: e.Root}
	for _, server := range serversOf(ctx, e) {
		one := *e
		one.Servers = []string{server}
		conditions, err := checkServer(ctx, l, &one)
		if err != nil {
			return of, err
		}
		of.Servers = append(of.Servers, lockview.CheckupServer{Server: server, Conditions: conditions})
	}
	client, err := l.Connect(ctx, e, true)
	if errors.Is(err, recipes.ErrUnreachable) && ctx.Err() == nil {
		// Each server's findings already give the reason. The other ensembles are still checked.
		of.Together = []check.Condition{{Name: "connection", Verdict: check.Fails, What: "no server can be used from here",
			Why: "programs that also reach no server take no lock, and lose the locks that they hold within a session timeout", Next: "see what is said of each server"}}
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

// checkServer looks at one server. A server that cannot be reached is a finding.
func checkServer(ctx context.Context, l *Loader, e *config.Ensemble) ([]check.Condition, error) {
	client, err := l.Connect(ctx, e, true)
	var ours *view.Failure
	switch {
	case errors.As(err, &ours) || err != nil && ctx.Err() != nil: // the error is ours, not the server's
		return nil, err
	case err != nil:
		return []check.Condition{{Name: "connection", Verdict: check.Fails, What: err.Error(),
			Why: "clients that try this server lose time, and if it is down, the ensemble tolerates one failure fewer", Next: "check that it is running, or remove it from the list"}}, nil
	}
	defer client.Close()
	return check.Client(ctx, client)
}
