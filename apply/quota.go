package apply

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// quotas reads the quotas that are declared, and those an apply of ours set.
func (r *reader) quotas(ctx context.Context, desired *plan.Tree) error {
	paths := map[string]bool{}
	for _, q := range desired.Intent.Quotas {
		paths[q.Path] = true
	}
	if r.tree.Index != nil {
		for _, e := range r.tree.Index.Resources {
			if e.Quota > 0 {
				paths[e.Path] = true
			}
		}
	}
	for path := range paths {
		if kind.ValidatePath(path) != nil {
			continue
		}
		data, stat, err := r.s.Get(ctx, plan.QuotaPath(path)+"/zookeeper_limits")
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return readError(plan.QuotaPath(path), err)
		}
		stats, err := r.s.Exists(ctx, plan.QuotaPath(path)+"/zookeeper_stats")
		if err != nil {
			return readError(plan.QuotaPath(path), err)
		}
		if r.tree.Quotas == nil {
			r.tree.Quotas = map[string]plan.LiveQuota{}
		}
		r.tree.Quotas[path] = plan.LiveQuota{
			MaxNodes: int(max(0, limitOf(data, "countHardLimit"))), MaxBytes: max(0, limitOf(data, "byteHardLimit")),
			Exists: true, Version: stat.Version, Stats: stats != nil,
		}
	}
	return nil
}

// limitOf reads one limit of the text a limits node holds; 0 when it says none.
func limitOf(data []byte, name string) int64 {
	for _, pair := range strings.FieldsFunc(string(data), func(c rune) bool { return c == ',' || c == ';' }) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// quotaPaths are the directories the quotas of the plan stand in, parents first.
func quotaPaths(p *plan.Plan) (out []string) {
	seen := map[string]bool{}
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Quota == nil || c.Quota.After == 0 {
			continue
		}
		for at := 1; at <= len(c.Path); at++ {
			if dir := c.Path[:at]; (at == len(c.Path) || c.Path[at] == '/') && !seen[dir] {
				seen[dir] = true
				out = append(out, plan.QuotaPath(dir))
			}
		}
	}
	return out
}
