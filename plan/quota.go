package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// ZooKeeper keeps the quota of a node in two others. Below /zookeeper/quota and the
// node's path, zookeeper_limits contains the limits that a client wants and
// zookeeper_stats what the server counts. They are ordinary nodes, so they change in the
// plan's transaction. Servers before 3.7, or without enforceQuota, only log an excess.
//
// Apply creates the directories above the two nodes before the transaction, and they stay: setquota
// of other tools creates and uses the same ones, so if the transaction created them it could be refused
// because of somebody else's. An empty directory limits nothing.

// LiveQuota is a quota as it was found; the zero value is none.
type LiveQuota struct {
	MaxNodes int   `json:"max_nodes"` // the hard limit on the count; 0 for none
	MaxBytes int64 `json:"max_bytes"` // the hard limit on the bytes, which is kept; 0 for none
	Exists   bool  `json:"exists"`    // the limits node exists
	Czxid    int64 `json:"czxid"`     // of the limits node
	Version  int32 `json:"version"`   // of the limits node
	Stats    bool  `json:"stats"`     // the stats node exists
}

// QuotaPath is where ZooKeeper keeps the limits and counts of the node at path.
func QuotaPath(path string) string { return quotaRoot + path }

const quotaRoot = "/zookeeper/quota"

// QuotaNodes are the nodes of a quota: its directories, parents first, its limits and its counts.
func QuotaNodes(path string) (out []string) {
	for at := 1; at <= len(path); at++ {
		if at == len(path) || path[at] == '/' {
			out = append(out, QuotaPath(path[:at]))
		}
	}
	return append(out, QuotaPath(path)+"/zookeeper_limits", QuotaPath(path)+"/zookeeper_stats")
}

// limits is the data of a limits node, in the server's own notation (StatsTrack).
// The first two fields are the soft limits, which only log. The equals sign after them looks like a
// mistake, but keeps older servers from reading on (StatsTrack.toString). -1 means none.
func (q *QuotaDiff) limits() []byte {
	soft, bytes := -1, int64(-1)
	if q.Live.MaxBytes > 0 {
		bytes = q.Live.MaxBytes
	}
	hard := -1
	if q.After > 0 {
		hard = q.After
	}
	return fmt.Appendf(nil, "count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", soft, soft, bytes, hard)
}

// ops returns the operations that set or remove the quota.
//
// The limits come before the stats: a server tracks a path once the limits are created, and counts
// what exists when the stats are created (DataTree.createNode). Ours is a limit on the count; a limit
// on the bytes is somebody else's, so if there is one, the limits are rewritten and not deleted.
func (q *QuotaDiff) ops(c *Change) (ops []Op) {
	if q == nil {
		return nil
	}
	acl := []kind.ACL(nil) // of nodes that are created
	switch {
	case q.declared != nil:
		acl = q.declared.List()
	case c.After != nil:
		acl = c.After.ACL
	}
	limits, stats := QuotaPath(c.Path)+"/zookeeper_limits", QuotaPath(c.Path)+"/zookeeper_stats"
	if q.After == 0 && q.Live.MaxBytes == 0 {
		if q.Live.Stats {
			// The servers count in it without raising its version, but setquota may have raised it.
			ops = append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: stats, Version: -1})
		}
		return append(ops, Op{Kind: OpDelete, Addr: c.Addr, Path: limits, Version: q.Live.Version})
	}
	if q.Live.Exists {
		ops = append(ops, Op{Kind: OpSet, Addr: c.Addr, Path: limits, Data: q.limits(), Version: q.Live.Version})
	} else {
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: limits, Data: q.limits(), ACL: acl})
	}
	if !q.Live.Stats && c.After != nil {
		ops = append(ops, Op{Kind: OpCreate, Addr: c.Addr, Path: stats, Data: []byte("count=0,bytes=0"), ACL: acl})
	}
	return ops
}

// wantQuotas notes the declared quotas in copies of their namespaces.
func (d *sides) wantQuotas() {
	for _, q := range d.intent.Quotas {
		n := d.want[q.Path]
		if n == nil || !n.Kind().Container {
			continue // Load reports it
		}
		c := *n
		c.Quota = q.MaxNodes
		d.want[q.Path] = &c
		at, _ := slices.BinarySearchFunc(d.desired, q.Path, func(n *Node, path string) int { return strings.Compare(n.Path, path) })
		d.desired[at] = &c // it is there: both hold the same nodes
	}
}

// haveQuotas notes the quotas that were found in copies of their namespaces: a quota that
// stays keeps its entry in the index, by which a later plan can remove it.
//
// A quota that the index does not know is ours if the transaction that created the namespace
// also created the quota. Any other may be somebody else's.
func (d *sides) haveQuotas() {
	d.limits, d.doubtful = map[string]LiveQuota{}, map[string]LiveQuota{}
	declared := map[string]bool{}
	for _, q := range d.intent.Quotas {
		declared[q.Path] = true
	}
	for path, live := range d.current.Quotas {
		n := d.have[path]
		_, e, _ := d.entry(path)
		if !declared[path] && e.Quota == 0 && !(d.ours(n) && n.Live != nil && n.Live.Czxid == live.Czxid) {
			d.doubtful[path] = live
			continue
		}
		if !declared[path] && d.takenOver(n, live, e.Quota) {
			continue
		}
		d.limits[path] = live
		if d.ours(n) {
			c := *n
			c.Quota = live.MaxNodes
			d.have[path] = &c
		}
	}
}

// takenOver reports whether a quota that was ours now belongs to somebody else, like the node it
// limits: it differs from what we set, or it was created after that stack had created its namespace.
// If that stack declares the same number that we left, this cannot be distinguished from declaring
// none: the quota is removed, and its next plan sets it again.
func (d *sides) takenOver(n *Node, live LiveQuota, set int) bool {
	switch {
	case n == nil || d.ours(n):
		return false
	case live.MaxNodes != set:
		return true
	}
	return n.Payload != nil && n.Payload.Owner.Stack != "" && n.Live != nil && live.Czxid >= n.Live.Czxid
}

// quotas compares the quotas of all namespaces that have one, or had one of ours. They are compared
// separately, because a quota is neither in the node nor in its payload: it changes other nodes, and
// leaves the namespace and its generation alone.
func (d *decisions) quotas() {
	for c := range d.p.Each() {
		live, want := d.limits[c.Path], 0
		if want0 := d.want[c.Path]; want0 != nil && c.After != nil && !c.Tombstone {
			want = want0.Quota
		}
		// A namespace is forgotten as it is: its quota goes on limiting those who use it.
		if c.Action == Forget || live.MaxNodes == want {
			continue
		}
		c.Quota = &QuotaDiff{Before: live.MaxNodes, After: want, Live: live, declared: d.intent.Access}
		if c.Action == NoOp {
			c.Action = Update
		}
	}
}

// leftQuota is a quota of ours whose namespace is gone.
type leftQuota struct {
	Path string    `json:"path"`
	Live LiveQuota `json:"live"`
}

// leftQuotas finds quotas that this stack set on namespaces that no longer exist, or are
// no longer ours, and that nobody declares: they would limit whatever comes there next.
func (d *selection) leftQuotas() {
	if d.p.RefreshOnly {
		return
	}
	byPath := d.byPath()
	for path, live := range d.limits {
		key, e, known := d.entry(path)
		if !known || e.Quota == 0 || !live.Exists || live.MaxNodes == 0 || d.outside[path] || byPath[path] != nil {
			continue
		}
		d.p.prior.LeftQuotas = append(d.p.prior.LeftQuotas, leftQuota{path, live})
		addr, how := addrOfKey(key, path), "was deleted by hand"
		if d.have[path] != nil {
			how = "is no longer ours"
		}
		d.problem(Warning, ProblemQuota, &Node{Addr: addr, Path: path}, "Quota of a namespace that is gone",
			fmt.Sprintf("%s %s, and its quota of %d znodes is still at %s. Apply removes it.", path, how, live.MaxNodes, QuotaPath(path)))
	}
	slices.SortFunc(d.p.prior.LeftQuotas, func(a, b leftQuota) int { return strings.Compare(a.Path, b.Path) })
}

// doubtfulQuotas warns of quotas that stay because it is not known whose they are. This
// plan is the last one to see them: its apply notes the namespace in the index, or deletes it.
func (d *selection) doubtfulQuotas() {
	for c := range d.p.Each() {
		live := d.doubtful[c.Path]
		if !c.Unnoted || c.Action == Forget || live.MaxNodes == 0 {
			continue
		}
		or := ""
		if c.stays() && !c.Tombstone {
			or = fmt.Sprintf(", or declare it: quota { max_nodes = %d }", live.MaxNodes)
		}
		d.problem(Warning, ProblemQuota, &Node{Addr: c.Addr, Path: c.Path}, "A quota that may be ours is left",
			fmt.Sprintf("%s has a quota of %d znodes, at %s. Only the index said whether this stack set it, and it no longer knows %s, so the quota is left as it is. "+
				"If nobody else needs it, remove it with zkCli.sh: delquota -N %s%s.", c.Path, live.MaxNodes, QuotaPath(c.Path), c.Addr, c.Path, or))
	}
}

// dropQuotas removes the quotas of namespaces that are gone.
func (p *Plan) dropQuotas() (ops []Op) {
	for _, q := range p.prior.LeftQuotas {
		ops = append(ops, (&QuotaDiff{Before: q.Live.MaxNodes, Live: q.Live}).ops(&Change{Path: q.Path})...)
	}
	return ops
}
