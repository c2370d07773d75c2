package zktest

import (
	"fmt"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// change is a watch trigger of a transaction: it fires when the whole transaction is
// committed.
type change struct {
	path string
	typ  int32
	zxid int64
	acl  []ACL    // of the node at path: clients that cannot read it get no event
	ends *session // instead of a node's change: the end of a session, for a server that lags
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
func (t *txn) changed(path string, typ int32, n *node) {
	t.changes = append(t.changes, change{path: path, typ: typ, zxid: t.zxid, acl: n.acl})
}

// write applies one write operation. The Stat is that of the node after it.
func (t *txn) write(r *request) (string, Stat, Code) {
	switch r.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return t.create(r)
	case jute.OpDelete:
		return r.path, Stat{}, t.delete(r.path, r.version)
	case jute.OpSetData:
		return t.setData(r.path, r.data, r.version)
	case jute.OpSetACL:
		return t.setACL(r.path, r.acl, r.version)
	case jute.OpCheck:
		return r.path, Stat{}, t.check(r.path, r.version)
	}
	return "", Stat{}, jute.CodeUnimplemented
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
func (t *txn) create(r *request) (string, Stat, Code) {
	mode, code := t.checkMode(r)
	if code != jute.CodeOK {
		return "", Stat{}, code
	}
	parentPath, code := parentForChange(r.path)
	if code != jute.CodeOK {
		return "", Stat{}, code
	}
	acl, code := fixACL(t.s.opts, t.ids, r.acl)
	if code != jute.CodeOK {
		return "", Stat{}, code
	}
	parent := t.s.tree.get(parentPath)
	if parent == nil {
		return "", Stat{}, CodeNoNode
	}
	if !allowed(parent.acl, permCreate, t.ids) {
		return "", Stat{}, CodeNoAuth
	}
	created := t.createCount(parentPath, parent)
	path := r.path
	if mode.sequential {
		path = fmt.Sprintf("%s%010d", path, created)
	}
	switch {
	case !validPath(path):
		return "", Stat{}, jute.CodeBadArguments
	case t.s.tree.get(path) != nil:
		return "", Stat{}, CodeNodeExists
	case parent.life == ephemeral:
		return "", Stat{}, jute.CodeNoChildrenForEphemerals
	}
	if code := t.checkQuota(path, int64(len(r.data)), 1); code != jute.CodeOK {
		return "", Stat{}, code
	}
	n := t.newNode(r, mode, acl)
	t.insert(path, n, created+1)
	return path, n.stat(), jute.CodeOK
}

// checkMode refuses unknown flags, a lifetime without a TTL mode, and a TTL mode
// without a lifetime (PrepRequestProcessor.validateCreateRequest).
func (t *txn) checkMode(r *request) (createMode, Code) {
	mode, ok := parseMode(r.flags)
	switch {
	case !ok:
		return mode, jute.CodeBadArguments
	case mode.ttl && !t.s.opts.extendedTypes:
		return mode, jute.CodeUnimplemented
	case mode.ttl && (r.ttl <= 0 || r.ttl > maxTTL), !mode.ttl && (r.ttl >= 0 || r.op == jute.OpCreateTTL):
		return mode, jute.CodeBadArguments
	}
	return mode, jute.CodeOK
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
func (t *txn) newNode(r *request, mode createMode, acl []ACL) *node {
	n := &node{data: r.data, acl: acl, czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctime: t.now, mtime: t.now}
	switch {
	case r.op == jute.OpCreateContainer:
		n.life = container
	case r.op == jute.OpCreateTTL:
		n.life, n.ttl = timed, r.ttl
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
	t.changed(path, eventCreated, n)
	t.changed(parentPath, eventChildrenChanged, parent)
}

// delete follows PrepRequestProcessor too. It needs a right on the parent, which is
// checked before it is known whether the node exists.
func (t *txn) delete(path string, version int32) Code {
	parentPath, code := parentForChange(path)
	if code != jute.CodeOK || special(path) {
		return jute.CodeBadArguments
	}
	parent := t.s.tree.get(parentPath)
	if parent == nil {
		return CodeNoNode
	}
	if !allowed(parent.acl, permDelete, t.ids) {
		return CodeNoAuth
	}
	n := t.s.tree.get(path)
	switch {
	case n == nil:
		return CodeNoNode
	case version != -1 && version != n.version:
		return jute.CodeBadVersion
	case len(n.children) > 0:
		return jute.CodeNotEmpty
	}
	t.drop(path, n)
	return jute.CodeOK
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
	t.changed(path, eventDeleted, n)
	t.changed(parentPath, eventChildrenChanged, parent)
}

// setData checks the quota before the version, as PrepRequestProcessor does.
func (t *txn) setData(path string, data []byte, version int32) (string, Stat, Code) {
	n, code := t.target(path, permWrite)
	if code != jute.CodeOK {
		return "", Stat{}, code
	}
	if code := t.checkQuota(path, int64(len(data)-len(n.data)), 0); code != jute.CodeOK {
		return "", Stat{}, code
	}
	if version != -1 && version != n.version {
		return "", Stat{}, jute.CodeBadVersion
	}
	old := *n
	t.s.tree.bytes += int64(len(data) - len(n.data))
	n.data, n.mzxid, n.mtime, n.version = data, t.zxid, t.now, n.version+1
	t.undo = append(t.undo, func() {
		t.s.tree.bytes += int64(len(old.data) - len(n.data))
		n.data, n.mzxid, n.mtime, n.version = old.data, old.mzxid, old.mtime, old.version
	})
	t.accountSet(path, int64(len(data)-len(old.data)), old.data)
	t.changed(path, eventDataChanged, n)
	return path, n.stat(), jute.CodeOK
}

// setACL changes neither mzxid nor pzxid and fires no watch. It needs no undo, because
// a multi cannot contain it.
func (t *txn) setACL(path string, acl []ACL, version int32) (string, Stat, Code) {
	if !validPath(path) {
		return "", Stat{}, jute.CodeBadArguments
	}
	fixed, code := fixACL(t.s.opts, t.ids, acl)
	if code != jute.CodeOK {
		return "", Stat{}, code
	}
	n, code := t.target(path, permAdmin)
	if code != jute.CodeOK {
		return "", Stat{}, code
	}
	if version != -1 && version != n.aversion {
		return "", Stat{}, jute.CodeBadVersion
	}
	n.acl, n.aversion = fixed, n.aversion+1
	return path, n.stat(), jute.CodeOK
}

// check needs READ, because the answer reveals a node's version, or that it does not
// exist.
func (t *txn) check(path string, version int32) Code {
	n, code := t.target(path, permRead)
	if code == jute.CodeOK && version != -1 && version != n.version {
		return jute.CodeBadVersion
	}
	return code
}

// target finds the node that a write names and checks its ACL.
func (t *txn) target(path string, perm int32) (*node, Code) {
	if !validPath(path) {
		return nil, jute.CodeBadArguments
	}
	n := t.s.tree.get(path)
	if n == nil {
		return nil, CodeNoNode
	}
	if !allowed(n.acl, perm, t.ids) {
		return nil, CodeNoAuth
	}
	return n, jute.CodeOK
}
