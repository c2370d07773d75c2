package plan

import "fmt"

// ZooKeeper keeps the quota of a node in two others: below /zookeeper/quota and
// the node's path, zookeeper_limits holds what a client wants and zookeeper_stats
// what the server counts. They are ordinary nodes, so they change in the plan's
// transaction. Servers before 3.7, or without enforceQuota, only log an excess.

// LiveQuota is a quota as it was found; the zero value is none.
type LiveQuota struct {
	MaxNodes int   `json:"max_nodes"` // the hard limit on the count; 0 when there is none
	MaxBytes int64 `json:"max_bytes"` // that on the bytes, which is kept; 0 when there is none
	Exists   bool  `json:"exists"`    // of the limits node
	Version  int32 `json:"version"`
	Stats    bool  `json:"stats"` // whether the stats node is there
}

// QuotaPath is where ZooKeeper keeps the limits and counts of the node at path.
func QuotaPath(path string) string { return "/zookeeper/quota" + path }

// limits is the data of a limits node, in the server's own notation (StatsTrack).
func (q *QuotaDiff) limits() []byte {
	soft, bytes := -1, int64(-1)
	if q.live.MaxBytes > 0 {
		bytes = q.live.MaxBytes
	}
	hard := -1
	if q.After > 0 {
		hard = q.After
	}
	return fmt.Appendf(nil, "count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", soft, soft, bytes, hard)
}

// ops are the operations that set or take away the quota.
func (q *QuotaDiff) ops(c *Change) (ops []Op) {
	if q == nil {
		return nil
	}
	limits, stats := QuotaPath(c.Path)+"/zookeeper_limits", QuotaPath(c.Path)+"/zookeeper_stats"
	if q.After == 0 && q.live.MaxBytes == 0 {
		if q.live.Stats {
			// The server writes it without a version.
			ops = append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: stats, Version: -1})
		}
		return append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: limits, Version: q.live.Version})
	}
	if q.live.Exists {
		ops = append(ops, Op{Kind: OpSet, Addr: c.Addr, Path: limits, Data: q.limits(), Version: q.live.Version})
	} else {
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: limits, Data: q.limits(), ACL: c.After.ACL})
	}
	if !q.live.Stats {
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: stats, Data: []byte("count=0,bytes=0"), ACL: c.After.ACL})
	}
	return ops
}

// wantQuotas notes the declared quotas at copies of their namespaces.
func (d *differ) wantQuotas() {
	for _, q := range d.intent.Quotas {
		n := d.want[q.Path]
		if n == nil || !n.Kind().Container {
			continue // Load says so
		}
		c := *n
		c.Quota = q.MaxNodes
		d.want[q.Path] = &c
		for i := range d.desired {
			if d.desired[i] == n {
				d.desired[i] = &c
			}
		}
	}
}

// quotas compares the quotas of all namespaces that have one, or had one of ours.
func (d *differ) quotas() {
	for i := range d.p.Changes {
		c := &d.p.Changes[i]
		live, want := d.current.Quotas[c.Path], 0
		if want0 := d.want[c.Path]; want0 != nil && c.After != nil && !c.Tombstone {
			want = want0.Quota
		}
		if c.Action == Forget || live.MaxNodes == want {
			continue
		}
		c.Quota = &QuotaDiff{Before: live.MaxNodes, After: want, live: live}
		if c.Action == NoOp {
			c.Action = Update
		}
	}
}
