package store

import (
	"fmt"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// createMode is what the flags of a create ask for.
type createMode struct{ ephemeral, sequential, container, ttl bool }

// parseMode reads flags as CreateMode.fromFlag does.
func parseMode(flags int32) (createMode, bool) {
	modes := []createMode{
		{}, {ephemeral: true}, {sequential: true}, {ephemeral: true, sequential: true},
		{container: true}, {ttl: true}, {ttl: true, sequential: true},
	}
	if flags < 0 || int(flags) >= len(modes) {
		return createMode{}, false
	}
	return modes[flags], true
}

// maxTTL is the largest lifetime ZooKeeper can encode in a node's owner field.
const maxTTL = 1<<40 - 1

// apply follows PrepRequestProcessor's order of checks, which decides the answer when several things are wrong at once.
func (op Create) apply(t *txn) Result {
	mode, code := t.checkMode(op)
	if code != wire.CodeOK {
		return Result{Code: code}
	}
	parentPath, code := parentForChange(op.Path)
	if code != wire.CodeOK {
		return Result{Code: code}
	}
	acl, code := t.by.fixACL(t.tree.rules, op.ACL)
	if code != wire.CodeOK {
		return Result{Code: code}
	}
	parent := t.tree.get(parentPath)
	if parent == nil {
		return Result{Code: wire.CodeNoNode}
	}
	if !t.by.hasRight(permCreate, parent.acl) {
		return Result{Code: wire.CodeNoAuth}
	}
	created := t.createCount(parentPath, parent)
	path := op.Path
	if mode.sequential {
		path = fmt.Sprintf("%s%010d", path, created)
	}
	switch {
	case !ValidPath(path):
		return Result{Code: wire.CodeBadArguments}
	case t.tree.get(path) != nil:
		return Result{Code: wire.CodeNodeExists}
	case parent.life == Ephemeral:
		return Result{Code: wire.CodeNoChildrenForEphemerals}
	}
	if code := t.checkQuota(path, int64(len(op.Data)), 1); code != wire.CodeOK {
		return Result{Code: code}
	}
	n := t.newNode(op, mode, acl)
	t.insert(path, n, created+1)
	return Result{Path: path, Stat: n.stat(), Lifetime: n.life}
}

// checkMode refuses unknown flags, a lifetime without a TTL mode, and a TTL mode
// without a lifetime (PrepRequestProcessor.validateCreateRequest).
func (t *txn) checkMode(op Create) (createMode, wire.Code) {
	mode, ok := parseMode(op.Flags)
	switch {
	case !ok:
		return mode, wire.CodeBadArguments
	case mode.ttl && !t.tree.rules.TTLNodes:
		return mode, wire.CodeUnimplemented
	case mode.ttl && (op.TTL <= 0 || op.TTL > maxTTL), !mode.ttl && op.Kind == Timed:
		return mode, wire.CodeBadArguments
	}
	return mode, wire.CodeOK
}

// createCount is the number that the next sequential child of parent gets. Inside a multi the count is kept apart from the node. When the
// count wraps around, ZooKeeper's pending count becomes negative, and the stored count stays (see insert).
func (t *txn) createCount(path string, parent *node) int32 {
	if c, ok := t.creates[path]; ok {
		return c
	}
	return parent.creates
}

// newNode picks the lifetime by the operation, not by the flags, as the server does:
// only createContainer makes containers, only createTTL makes TTL nodes.
func (t *txn) newNode(op Create, mode createMode, acl []wire.ACL) *node {
	n := &node{data: op.Data, acl: acl, czxid: t.at.Zxid, mzxid: t.at.Zxid, pzxid: t.at.Zxid, ctime: t.at.Millis, mtime: t.at.Millis}
	switch {
	case op.Kind == Container:
		n.life = Container
	case op.Kind == Timed:
		n.life, n.ttl = Timed, op.TTL
	case mode.ephemeral:
		n.life, n.owner = Ephemeral, t.by.Session
	}
	return n
}

// insert adds a node. The parent's count and pzxid only grow. After 2^31 creates the new count is negative and is not stored.
// From then on the answer to sequential creates is NodeExists, as in ZooKeeper.
func (t *txn) insert(path string, n *node, created int32) {
	parentPath, _ := SplitPath(path)
	parent := t.tree.nodes[parentPath]
	creates, pzxid := parent.creates, parent.pzxid
	prev, had := t.creates[parentPath]
	t.creates[parentPath] = created
	if created > parent.creates {
		parent.creates, parent.pzxid = created, t.at.Zxid
	}
	t.tree.put(path, n)
	t.undo = append(t.undo, func() {
		t.tree.remove(path)
		parent.creates, parent.pzxid = creates, pzxid
		if t.creates[parentPath] = prev; !had {
			delete(t.creates, parentPath)
		}
	})
	t.accountCreate(path, int64(len(n.data)))
	t.noteChange(path, wire.EventCreated, n)
	t.noteChange(parentPath, wire.EventChildrenChanged, parent)
}

// inMulti settles which type of node a create inside a multi makes. Inside a multi the flags decide the type; outside, the operation does.
func (op Create) inMulti(rules Rules) (Create, wire.Code) {
	mode, known := parseMode(op.Flags)
	switch {
	case !known && rules.MultiDecodesModes, mode.ttl && op.Kind != Timed: // the server fails on the missing ttl
		return op, wire.CodeMarshallingError
	case mode.ttl:
	case mode.container:
		op.Kind = Container
	default:
		op.Kind = Persistent
	}
	return op, wire.CodeOK
}
