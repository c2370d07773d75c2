package config

import (
	"fmt"
	"math"
	"math/big"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
)

// minQuota is the namespace itself and one lock: ZooKeeper counts the node the
// quota is set on.
const (
	minQuota = 2
	maxQuota = math.MaxInt32
)

// evaluateQuota reads a quota block. ZooKeeper allows one quota on each line from
// the root to a leaf, and the second one it would refuse in the middle of an apply.
func (m *module) evaluateQuota(i *instance, s scope, b *block) {
	for at := i.parent; at != nil; at = at.parent {
		if at.quota > 0 {
			m.errorf(b.head, "Quota inside a quota", "%s is inside %s, which has a quota (%s); ZooKeeper allows one quota between the root and a node. Delete one of the two.",
				i.addr, at.addr, m.where(at.decl.head))
			s.d.failed = true
			return
		}
	}
	a := b.attrs["max_nodes"]
	v, ok := s.shown(a, cty.Number)
	if !ok {
		return
	}
	number, exact := v.AsBigFloat().Int64()
	if exact != big.Exact || number < minQuota || number > maxQuota {
		s.wrong(a, "Invalid value for max_nodes", fmt.Sprintf("max_nodes must be a whole number from %d to %d. The namespace itself counts, and so does each contender for a lock in it.", minQuota, maxQuota))
		return
	}
	i.quota = int(number)
}

// addQuota carries the quota of a namespace to the planner.
func (m *module) addQuota(i *instance) {
	if i.quota > 0 {
		in := &i.ensemble.Tree.Intent
		in.Quotas = append(in.Quotas, plan.Quota{Addr: i.addr, Path: i.path, MaxNodes: i.quota, Origin: m.where(i.decl.head)})
	}
}
