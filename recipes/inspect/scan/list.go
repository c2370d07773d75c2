package scan

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// list reads the children of a directory, unless the stat says that the children have not changed.
func (r *round) list(ctx context.Context, d *directory, stat *zk.Stat) (changed bool, err error) {
	switch {
	case stat != nil && d.listed && stat.Pzxid == d.pzxid:
		return false, nil
	case stat != nil && stat.NumChildren == 0:
		d.names, d.pzxid = nil, stat.Pzxid
	default:
		r.count()
		names, stat, err := r.live.Children(ctx, d.path)
		if err != nil {
			return false, err
		}
		if d.names, d.pzxid = names, stat.Pzxid; r.s.once {
			d.stat = stat
		}
	}
	d.listed = true
	return true, nil
}

// listQueue does the same for a sub-node of a lock; the sub-node need not exist. If byStat is set, listQueue reads the stat first, to see
// whether the list has changed.
func (r *round) listQueue(ctx context.Context, d *directory, byStat bool) (changed bool, err error) {
	var stat *zk.Stat
	if byStat {
		r.count()
		stat, err = r.live.Exists(ctx, d.path)
		if err == nil && stat == nil {
			err = zk.ErrNoNode
		}
	}
	if err == nil {
		changed, err = r.list(ctx, d, stat)
	}
	if errors.Is(err, zk.ErrNoNode) {
		changed, err, d.names, d.listed = len(d.names) > 0, nil, nil, false
	}
	return changed, err
}
