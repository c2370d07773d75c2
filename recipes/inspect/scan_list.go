package inspect

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
)

// wanted reports whether the children of the node itself are to be listed: they may be contenders, or locks, or something that
// does not belong there.
func (d *directory) wanted(p *kind.Payload, stat *zk.Stat, walked bool) bool {
	if p == nil {
		return true
	}
	k := p.Params.Kind()
	if k.Container {
		return walked
	}
	return slices.ContainsFunc(k.Queues, func(q kind.Queue) bool { return q.Child == "" }) ||
		stat != nil && (int(stat.NumChildren) != len(k.Children) || len(d.names) > 0)
}

// list reads the children of a directory, unless its stat says that they have not changed.
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

// listQueue is list for a sub-node of a lock, which may not exist. With byStat it reads the stat first, because nothing else
// has shown that it has changed.
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

// dir is the directory at path; a new, unread one if it was not asked for before.
func (e *entry) dir(path string) *directory {
	for _, d := range e.dirs {
		if d.path == path {
			return d
		}
	}
	d := &directory{path: path}
	e.dirs = append(e.dirs, d)
	return d
}
