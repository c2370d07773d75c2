package store

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Quotas are ordinary nodes: /zookeeper/quota<path>/zookeeper_limits holds the limits a client wrote, zookeeper_stats beside it is the
// server's own count. The server changes the count without a transaction: no version, no zxid.
const (
	limitNode = "zookeeper_limits"
	statNode  = "zookeeper_stats"
)

// quotaTrack is the text form of limits and counts. A missing value is -1.
type quotaTrack struct{ count, bytes, countHard, bytesHard int64 }

// parseTrack reads key=value pairs separated by commas and semicolons, the form of StatsTrack. When hard limits follow, StatsTrack
// writes a superfluous "=" after the number of bytes.
func parseTrack(data []byte) quotaTrack {
	t := quotaTrack{-1, -1, -1, -1}
	fields := map[string]*int64{
		"count": &t.count, "bytes": &t.bytes, "countHardLimit": &t.countHard, "byteHardLimit": &t.bytesHard,
	}
	for pair := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		v, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		if p := fields[key]; p != nil && err == nil {
			*p = v
		}
	}
	return t
}

// quotaFor is the nearest path at or above path that has limits.
func quotaFor(quotas map[string]struct{}, path string) (string, bool) {
	for at := path; len(quotas) > 0 && at != "/" && at != ""; at, _ = SplitPath(at) {
		if _, ok := quotas[at]; ok {
			return at, true
		}
	}
	return "", false
}

// quotaState is what the limits were before a transaction. ZooKeeper checks every part of a multi against these limits.
type quotaState struct {
	paths map[string]struct{} // nil: unchanged
	// The former data of limits and stats nodes that have changed; nil if the node did not exist.
	data map[string][]byte
}

// remember keeps the former content of a limits or stats node; nil when the node is being created.
func (q *quotaState) remember(path string, data []byte) {
	if q.data == nil {
		q.data = map[string][]byte{}
	}
	if _, ok := q.data[path]; !ok {
		q.data[path] = data
	}
}

// keepPaths remembers, before the first change, which paths had limits.
func (q *quotaState) keepPaths(t *Tree) {
	if q.paths == nil {
		q.paths = maps.Clone(t.quotas)
	}
}

// track reads limits or counts as they were before the transaction.
func (t *txn) track(path string) (quotaTrack, bool) {
	if data, ok := t.quota.data[path]; ok {
		return parseTrack(data), data != nil
	}
	if n := t.tree.nodes[path]; n != nil {
		return parseTrack(n.data), true
	}
	return quotaTrack{}, false
}

// checkQuota refuses a write that would exceed a hard limit; soft limits only make the real server log. Nothing is refused unless
// enforcement is on. Enforcement is off by default, as in ZooKeeper.
func (t *txn) checkQuota(path string, bytes, count int64) wire.Code {
	if !t.tree.rules.EnforceQuota {
		return wire.CodeOK
	}
	quotas := t.tree.quotas
	if t.quota.paths != nil {
		quotas = t.quota.paths
	}
	prefix, ok := quotaFor(quotas, path)
	if !ok {
		return wire.CodeOK
	}
	limit, ok1 := t.track(quotaPath + prefix + "/" + limitNode)
	now, ok2 := t.track(quotaPath + prefix + "/" + statNode)
	if ok1 && ok2 && (count != 0 && limit.countHard > -1 && now.count+count > limit.countHard ||
		bytes != 0 && limit.bytesHard > -1 && now.bytes+bytes > limit.bytesHard) {
		return wire.CodeQuotaExceeded
	}
	return wire.CodeOK
}

// accountCreate keeps the counts up to date after a create, and starts counting when the created node is itself part of a quota.
func (t *txn) accountCreate(path string, bytes int64) {
	tree := t.tree
	owner, name, ok := quotaNode(path)
	if ok {
		t.quota.remember(path, nil)
	}
	if ok && name == limitNode {
		t.quota.keepPaths(tree)
		tree.quotas[owner] = struct{}{}
		t.undo = append(t.undo, func() { delete(tree.quotas, owner) })
	} else if ok {
		count, size := tree.measure(owner)
		t.setTrack(owner, count, size)
	}
	t.account(path, bytes, 1)
}

func (t *txn) accountDelete(path string, data []byte) {
	owner, name, ok := quotaNode(path)
	if ok {
		t.quota.remember(path, data)
	}
	if ok && name == limitNode {
		t.quota.keepPaths(t.tree)
		delete(t.tree.quotas, owner)
		t.undo = append(t.undo, func() { t.tree.quotas[owner] = struct{}{} })
	}
	t.account(path, -int64(len(data)), -1)
}

// accountSet adds the difference in size. The number of nodes stays.
func (t *txn) accountSet(path string, bytes int64, old []byte) {
	if _, _, ok := quotaNode(path); ok {
		t.quota.remember(path, old)
	}
	t.account(path, bytes, 0)
}

// account adds to the counts of the nearest path with limits. As in ZooKeeper, the counts of the paths above it do not change. Without a
// stats node nothing is counted.
func (t *txn) account(path string, bytes, count int64) {
	owner, ok := quotaFor(t.tree.quotas, path)
	if !ok {
		return
	}
	if stats := t.tree.nodes[quotaPath+owner+"/"+statNode]; stats != nil {
		now := parseTrack(stats.data)
		t.setTrack(owner, now.count+count, now.bytes+bytes)
	}
}

// setTrack writes the counts into the stats node, in place: its Stat does not change.
func (t *txn) setTrack(owner string, count, bytes int64) {
	stats := t.tree.nodes[quotaPath+owner+"/"+statNode]
	if stats == nil {
		return
	}
	old := stats.data
	t.quota.remember(quotaPath+owner+"/"+statNode, old)
	stats.data = fmt.Appendf(nil, "count=%d,bytes=%d", count, bytes)
	t.tree.bytes += int64(len(stats.data) - len(old))
	t.undo = append(t.undo, func() {
		t.tree.bytes += int64(len(old) - len(stats.data))
		stats.data = old
	})
}

// quotaNode splits the path of a limits or stats node.
func quotaNode(path string) (owner, name string, ok bool) {
	parent, name := SplitPath(path)
	owner, ok = strings.CutPrefix(parent, quotaPath+"/")
	return "/" + owner, name, ok && (name == limitNode || name == statNode)
}

// measure counts the nodes and bytes at and below path; zero when the node does not exist.
func (t *Tree) measure(path string) (count, bytes int64) {
	n := t.nodes[path]
	if n == nil {
		return 0, 0
	}
	count, bytes = 1, int64(len(n.data))
	for name := range n.children {
		c, b := t.measure(JoinPath(path, name))
		count, bytes = count+c, bytes+b
	}
	return count, bytes
}
