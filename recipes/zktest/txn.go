package zktest

import (
	"fmt"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// change is a watch trigger of a transaction: it fires when the whole transaction is
// committed.
type change struct {
	path string
	typ  wire.EventType
	zxid int64
	acl  []wire.ACL // of the node at path: clients that cannot read it get no event
	ends *session   // instead of a node's change: the end of a session, for a server that lags
}

// txn is one transaction being applied: one write, one multi, or the end of a
// session. Everything it does is undone when one of its parts fails.
type txn struct {
	s       *Server
	zxid    int64
	now     int64 // milliseconds
	session int64
	ids     []identity
	undo    []func()
	changes []change
	// creates overrides the parents' create counts inside a multi, see createCount.
	creates map[string]int32
	quota   quotaState
}

// begin starts a transaction. It takes the next zxid, which a failed write
// keeps: ZooKeeper logs the failure as a transaction of its own.
func (s *Server) begin(session int64, ids []identity) *txn {
	s.zxid++
	return &txn{s: s, zxid: s.zxid, now: nowMillis(), session: session, ids: ids, creates: map[string]int32{}}
}

// rollback undoes everything done so far, last first: each step restores what it
// found, which may be the result of an earlier one.
func (t *txn) rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	t.undo, t.changes = nil, nil
}

// commit fires the watches, on every server of the ensemble, in the order of the
// operations. The replies are not sent yet, so a client sees the event before it can
// read the change, as ZooKeeper promises.
func (t *txn) commit() {
	t.s.scheduleReap()
	for _, c := range t.changes {
		for _, v := range t.s.views {
			v.see(c)
		}
	}
}

// changed notes a trigger together with the node's ACL, which decides who gets the
// event: when the watches fire, a deleted node no longer has one.
func (t *txn) changed(path string, typ wire.EventType, n *node) {
	t.changes = append(t.changes, change{path: path, typ: typ, zxid: t.zxid, acl: n.acl})
}

// write applies one write operation. The Stat is that of the node after it.
func (t *txn) write(r *wire.Request) (string, wire.Stat, wire.Code) {
	switch r.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return t.create(r)
	case wire.OpDelete:
		return r.Path, wire.Stat{}, t.delete(r.Path, r.Version)
	case wire.OpSetData:
		return t.setData(r.Path, r.Data, r.Version)
	case wire.OpSetACL:
		return t.setACL(r.Path, r.ACL, r.Version)
	case wire.OpCheck:
		return r.Path, wire.Stat{}, t.check(r.Path, r.Version)
	}
	return "", wire.Stat{}, wire.CodeUnimplemented
}

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

// create follows PrepRequestProcessor's order of checks, which decides the
// answer when several things are wrong at once.
func (t *txn) create(r *wire.Request) (string, wire.Stat, wire.Code) {
	mode, code := t.checkMode(r)
	if code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	parentPath, code := parentForChange(r.Path)
	if code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	acl, code := fixACL(t.s.opts, t.ids, r.ACL)
	if code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	parent := t.s.tree.get(parentPath)
	if parent == nil {
		return "", wire.Stat{}, wire.CodeNoNode
	}
	if !allowed(parent.acl, permCreate, t.ids) {
		return "", wire.Stat{}, wire.CodeNoAuth
	}
	created := t.createCount(parentPath, parent)
	path := r.Path
	if mode.sequential {
		path = fmt.Sprintf("%s%010d", path, created)
	}
	switch {
	case !validPath(path):
		return "", wire.Stat{}, wire.CodeBadArguments
	case t.s.tree.get(path) != nil:
		return "", wire.Stat{}, wire.CodeNodeExists
	case parent.life == ephemeral:
		return "", wire.Stat{}, wire.CodeNoChildrenForEphemerals
	}
	if code := t.checkQuota(path, int64(len(r.Data)), 1); code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	n := t.newNode(r, mode, acl)
	t.insert(path, n, created+1)
	return path, n.stat(), wire.CodeOK
}

// checkMode refuses unknown flags, a lifetime without a TTL mode, and a TTL mode
// without a lifetime (PrepRequestProcessor.validateCreateRequest).
func (t *txn) checkMode(r *wire.Request) (createMode, wire.Code) {
	mode, ok := parseMode(r.Flags)
	switch {
	case !ok:
		return mode, wire.CodeBadArguments
	case mode.ttl && !t.s.opts.extendedTypes:
		return mode, wire.CodeUnimplemented
	case mode.ttl && (r.TTL <= 0 || r.TTL > maxTTL), !mode.ttl && r.Op == wire.OpCreateTTL:
		return mode, wire.CodeBadArguments
	}
	return mode, wire.CodeOK
}

// createCount is the number that the next sequential child of parent gets. Inside a
// multi it is kept separately from the node: when the count wraps around, ZooKeeper's
// pending one goes on into the negative numbers while the stored one stays, see insert.
func (t *txn) createCount(path string, parent *node) int32 {
	if c, ok := t.creates[path]; ok {
		return c
	}
	return parent.creates
}

// newNode picks the lifetime by the operation, not by the flags, as the server does:
// only createContainer makes containers, only createTTL makes TTL nodes.
func (t *txn) newNode(r *wire.Request, mode createMode, acl []wire.ACL) *node {
	n := &node{data: r.Data, acl: acl, czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctime: t.now, mtime: t.now}
	switch {
	case r.Op == wire.OpCreateContainer:
		n.life = container
	case r.Op == wire.OpCreateTTL:
		n.life, n.ttl = timed, r.TTL
	case mode.ephemeral:
		n.life, n.owner = ephemeral, t.session
	}
	return n
}

// insert adds a node. The parent's count and pzxid only grow: after 2^31 creates the
// new count is negative and is not stored, and from then on the answer to sequential
// creates is NodeExists, as in ZooKeeper.
func (t *txn) insert(path string, n *node, created int32) {
	parentPath, _ := splitPath(path)
	parent := t.s.tree.nodes[parentPath]
	creates, pzxid := parent.creates, parent.pzxid
	prev, had := t.creates[parentPath]
	t.creates[parentPath] = created
	if created > parent.creates {
		parent.creates, parent.pzxid = created, t.zxid
	}
	t.s.tree.put(path, n)
	t.undo = append(t.undo, func() {
		t.s.tree.remove(path)
		parent.creates, parent.pzxid = creates, pzxid
		if t.creates[parentPath] = prev; !had {
			delete(t.creates, parentPath)
		}
	})
	t.accountCreate(path, int64(len(n.data)))
	t.changed(path, wire.EventCreated, n)
	t.changed(parentPath, wire.EventChildrenChanged, parent)
}

// delete follows PrepRequestProcessor too. It needs a right on the parent, which is
// checked before it is known whether the node exists.
func (t *txn) delete(path string, version int32) wire.Code {
	parentPath, code := parentForChange(path)
	if code != wire.CodeOK || special(path) {
		return wire.CodeBadArguments
	}
	parent := t.s.tree.get(parentPath)
	if parent == nil {
		return wire.CodeNoNode
	}
	if !allowed(parent.acl, permDelete, t.ids) {
		return wire.CodeNoAuth
	}
	n := t.s.tree.get(path)
	switch {
	case n == nil:
		return wire.CodeNoNode
	case version != -1 && version != n.version:
		return wire.CodeBadVersion
	case len(n.children) > 0:
		return wire.CodeNotEmpty
	}
	t.drop(path, n)
	return wire.CodeOK
}

// drop removes a node without any check. The parent's pzxid changes, its create count
// does not, so that no number is used twice.
func (t *txn) drop(path string, n *node) {
	parentPath, _ := splitPath(path)
	parent := t.s.tree.nodes[parentPath]
	pzxid := parent.pzxid
	t.s.tree.remove(path)
	parent.pzxid = t.zxid
	t.undo = append(t.undo, func() {
		t.s.tree.put(path, n)
		parent.pzxid = pzxid
	})
	t.accountDelete(path, n.data)
	t.changed(path, wire.EventDeleted, n)
	t.changed(parentPath, wire.EventChildrenChanged, parent)
}

// setData checks the quota before the version, as PrepRequestProcessor does.
func (t *txn) setData(path string, data []byte, version int32) (string, wire.Stat, wire.Code) {
	n, code := t.target(path, permWrite)
	if code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	if code := t.checkQuota(path, int64(len(data)-len(n.data)), 0); code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	if version != -1 && version != n.version {
		return "", wire.Stat{}, wire.CodeBadVersion
	}
	old := *n
	t.s.tree.bytes += int64(len(data) - len(n.data))
	n.data, n.mzxid, n.mtime, n.version = data, t.zxid, t.now, n.version+1
	t.undo = append(t.undo, func() {
		t.s.tree.bytes += int64(len(old.data) - len(n.data))
		n.data, n.mzxid, n.mtime, n.version = old.data, old.mzxid, old.mtime, old.version
	})
	t.accountSet(path, int64(len(data)-len(old.data)), old.data)
	t.changed(path, wire.EventDataChanged, n)
	return path, n.stat(), wire.CodeOK
}

// setACL changes neither mzxid nor pzxid and fires no watch. It needs no undo, because
// a multi cannot contain it.
func (t *txn) setACL(path string, acl []wire.ACL, version int32) (string, wire.Stat, wire.Code) {
	if !validPath(path) {
		return "", wire.Stat{}, wire.CodeBadArguments
	}
	fixed, code := fixACL(t.s.opts, t.ids, acl)
	if code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	n, code := t.target(path, permAdmin)
	if code != wire.CodeOK {
		return "", wire.Stat{}, code
	}
	if version != -1 && version != n.aversion {
		return "", wire.Stat{}, wire.CodeBadVersion
	}
	n.acl, n.aversion = fixed, n.aversion+1
	return path, n.stat(), wire.CodeOK
}

// check needs READ, because the answer reveals a node's version, or that it does not
// exist.
func (t *txn) check(path string, version int32) wire.Code {
	n, code := t.target(path, permRead)
	if code == wire.CodeOK && version != -1 && version != n.version {
		return wire.CodeBadVersion
	}
	return code
}

// target finds the node that a write names and checks its ACL.
func (t *txn) target(path string, perm int32) (*node, wire.Code) {
	if !validPath(path) {
		return nil, wire.CodeBadArguments
	}
	n := t.s.tree.get(path)
	if n == nil {
		return nil, wire.CodeNoNode
	}
	if !allowed(n.acl, perm, t.ids) {
		return nil, wire.CodeNoAuth
	}
	return n, wire.CodeOK
}
