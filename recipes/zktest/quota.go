package zktest

import (
	"fmt"
	"strconv"
	"strings"
)

// Quotas are ordinary nodes: /zookeeper/quota<path>/zookeeper_limits holds the
// limits a client wrote, zookeeper_stats beside it is the server's own count.
// The server changes the count without a transaction: no version, no zxid.
const (
	limitNode = "zookeeper_limits"
	statNode  = "zookeeper_stats"
)

// quotaTrack is the text form of limits and counts. A missing value is -1.
type quotaTrack struct{ count, bytes, countHard, bytesHard int64 }

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
func (t *tree) quotaFor(path string) (string, bool) {
	for at := path; len(t.quotas) > 0 && at != "/" && at != ""; at, _ = splitPath(at) {
		if _, ok := t.quotas[at]; ok {
			return at, true
		}
	}
	return "", false
}

// checkQuota refuses a write that would cross a hard limit; soft limits only
// make the real server log. Nothing is refused unless enforcement is on, which
// as in ZooKeeper it is not by default.
func (s *Server) checkQuota(path string, bytes, count int64) Code {
	prefix, ok := s.tree.quotaFor(path)
	if !ok || !s.opts.enforceQuota {
		return CodeOK
	}
	limits, stats := s.tree.nodes[quotaPath+prefix+"/"+limitNode], s.tree.nodes[quotaPath+prefix+"/"+statNode]
	if limits == nil || stats == nil {
		return CodeOK
	}
	limit, now := parseTrack(limits.data), parseTrack(stats.data)
	if count != 0 && limit.countHard > -1 && now.count+count > limit.countHard ||
		bytes != 0 && limit.bytesHard > -1 && now.bytes+bytes > limit.bytesHard {
		return CodeQuotaExceeded
	}
	return CodeOK
}

// accountCreate keeps the counts up to date after a create, and starts counting
// when the created node is itself part of a quota.
func (t *txn) accountCreate(path string, bytes int64) {
	tree := t.s.tree
	if owner, name, ok := quotaNode(path); ok && name == limitNode {
		tree.quotas[owner] = struct{}{}
		t.undo = append(t.undo, func() { delete(tree.quotas, owner) })
	} else if ok {
		count, size := tree.measure(owner)
		t.setTrack(owner, count, size)
	}
	t.account(path, bytes, 1)
}

func (t *txn) accountDelete(path string, bytes int64) {
	if owner, name, ok := quotaNode(path); ok && name == limitNode {
		delete(t.s.tree.quotas, owner)
		t.undo = append(t.undo, func() { t.s.tree.quotas[owner] = struct{}{} })
	}
	t.account(path, -bytes, -1)
}

func (t *txn) accountSet(path string, bytes int64) { t.account(path, bytes, 0) }

func (t *txn) account(path string, bytes, count int64) {
	owner, ok := t.s.tree.quotaFor(path)
	if !ok {
		return
	}
	if stats := t.s.tree.nodes[quotaPath+owner+"/"+statNode]; stats != nil {
		now := parseTrack(stats.data)
		t.setTrack(owner, now.count+count, now.bytes+bytes)
	}
}

func (t *txn) setTrack(owner string, count, bytes int64) {
	stats := t.s.tree.nodes[quotaPath+owner+"/"+statNode]
	if stats == nil {
		return
	}
	old := stats.data
	stats.data = fmt.Appendf(nil, "count=%d,bytes=%d", count, bytes)
	t.s.tree.bytes += int64(len(stats.data) - len(old))
	t.undo = append(t.undo, func() {
		t.s.tree.bytes += int64(len(old) - len(stats.data))
		stats.data = old
	})
}

// quotaNode takes the path of a limits or stats node apart.
func quotaNode(path string) (owner, name string, ok bool) {
	parent, name := splitPath(path)
	owner, ok = strings.CutPrefix(parent, quotaPath+"/")
	return "/" + owner, name, ok && (name == limitNode || name == statNode)
}

// measure counts the nodes and bytes at and below path; nothing when it does
// not exist.
func (t *tree) measure(path string) (count, bytes int64) {
	n := t.nodes[path]
	if n == nil {
		return 0, 0
	}
	count, bytes = 1, int64(len(n.data))
	for name := range n.children {
		c, b := t.measure(joinPath(path, name))
		count, bytes = count+c, bytes+b
	}
	return count, bytes
}
