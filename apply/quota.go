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
)

// quotas reads the quotas that are declared, those an apply of ours set, and those at
// namespaces of ours that the index does not know: it may have lost that we set them.
//
// Of a namespace the index knows and notes no quota for, any quota is somebody else's: it is
// not even looked at. What may be somebody's and not ours to read is left out for the same
// reason, and so is what was ours when its namespace is not any more; a quota that is declared
// and cannot be read is an error.
func (r *reader) quotas(ctx context.Context, desired *plan.Tree) error {
	ours := map[string]bool{} // false: it may be somebody's
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
	err := each(ctx, len(paths), func(ctx context.Context, i int) (err error) {
		found[i], err = r.quota(ctx, paths[i])
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

func (r *reader) quota(ctx context.Context, path string) (plan.LiveQuota, error) {
	at := plan.QuotaPath(path)
	data, stat, err := r.s.Get(ctx, at+"/zookeeper_limits")
	if errors.Is(err, zk.ErrNoNode) {
		return plan.LiveQuota{}, nil
	}
	if err != nil {
		return plan.LiveQuota{}, readError(at, err)
	}
	stats, err := r.s.Exists(ctx, at+"/zookeeper_stats")
	if err != nil {
		return plan.LiveQuota{}, readError(at, err)
	}
	return plan.LiveQuota{
		MaxNodes: int(max(0, limitOf(data, "countHardLimit"))), MaxBytes: max(0, limitOf(data, "byteHardLimit")),
		Exists: true, Czxid: stat.Czxid, Version: stat.Version, Stats: stats != nil,
	}, nil
}

// limitOf reads one limit of the text a limits node holds; 0 when it says none.
func limitOf(data []byte, name string) int64 {
	for _, pair := range strings.FieldsFunc(string(data), func(c rune) bool { return c == ',' || c == ';' }) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			// "bytes" is followed by an equals sign too many, for old servers (StatsTrack.toString).
			n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// quotaPaths are the directories the quotas of the plan stand in, parents first.
//
// Those of quotas that go are there, or there would be none to take away. A path's own is the
// last of its directories: /zookeeper/quota/locks/pay for /locks/pay.
func quotaPaths(p *plan.Plan) (out []string) {
	seen := map[string]bool{}
	for i := range p.Changes {
		c := &p.Changes[i]
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
