package apply

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// quotas reads the quotas that are declared, those that an apply of ours set, and those of
// namespaces of ours that the index does not know: it may have lost that we set them.
//
// If the index knows a namespace without a quota, any quota of it is somebody else's and is not
// read. A quota that may be somebody else's is also left out if we may not read it, and so is one of
// ours whose namespace is no longer ours. A quota that is declared and cannot be read is an error.
func (r *reader) quotas(ctx context.Context, desired *plan.Tree) error {
	ours := map[string]bool{} // false: it may be somebody else's
	for path, n := range r.seen {
		if r.ours(n) && n.Kind().Container {
			ours[path] = false
		}
	}
	if r.tree.Index != nil {
		for _, e := range r.tree.Index.Resources {
			if delete(ours, e.Path); e.Quota > 0 {
				ours[e.Path] = r.ours(r.seen[e.Path])
			}
		}
	}
	for _, q := range desired.Intent.Quotas {
		ours[q.Path] = true
	}
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(ours)), func(path string) bool { return kind.ValidatePath(path) != nil })
	found := make([]plan.LiveQuota, len(paths))
	err := each(ctx, r.s, len(paths),
		func(a *session.Ahead, i int) { a.WillGet(quotaLimits(paths[i])) },
		func(ctx context.Context, a *session.Ahead, i int) (err error) {
			found[i], err = quota(ctx, a, paths[i])
			if errors.Is(err, zk.ErrNoAuth) && !ours[paths[i]] {
				return nil
			}
			return err
		})
	for i, q := range found {
		if q.Exists {
			if r.tree.Quotas == nil {
				r.tree.Quotas = map[string]plan.LiveQuota{}
			}
			r.tree.Quotas[paths[i]] = q
		}
	}
	return err
}

func quotaLimits(path string) string { return plan.QuotaPath(path) + "/zookeeper_limits" }

func quota(ctx context.Context, a *session.Ahead, path string) (plan.LiveQuota, error) {
	at := plan.QuotaPath(path)
	data, stat, err := a.Get(ctx, quotaLimits(path))
	if errors.Is(err, zk.ErrNoNode) {
		return plan.LiveQuota{}, nil
	}
	if err != nil {
		return plan.LiveQuota{}, readError(at, err)
	}
	stats, err := a.Exists(ctx, at+"/zookeeper_stats")
	if err != nil {
		return plan.LiveQuota{}, readError(at, err)
	}
	return plan.LiveQuota{
		MaxNodes: int(max(0, limitOf(data, "countHardLimit"))), MaxBytes: max(0, limitOf(data, "byteHardLimit")),
		Exists: true, Czxid: stat.Czxid, Version: stat.Version, Stats: stats != nil,
	}, nil
}

// limitOf reads one limit from the data of a limits node; 0 if there is none.
func limitOf(data []byte, name string) int64 {
	for _, pair := range strings.FieldsFunc(string(data), func(c rune) bool { return c == ',' || c == ';' }) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			// One equals sign too many follows "bytes", for old servers (StatsTrack.toString).
			n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// quotaPaths are the directories of the plan's quotas, parents first.
//
// Those of quotas to be removed exist already. A path's own directory is the last one:
// /zookeeper/quota/locks/pay for /locks/pay.
func quotaPaths(p *plan.Plan) (out []string) {
	seen := map[string]bool{}
	for c := range p.Each() {
		if c.Quota == nil || c.Quota.After == 0 {
			continue
		}
		nodes := plan.QuotaNodes(c.Path)
		for _, dir := range nodes[:len(nodes)-2] {
			if !seen[dir] {
				seen[dir] = true
				out = append(out, dir)
			}
		}
	}
	return out
}
