package store

import "github.com/locktree/locktree/recipes/zktest/internal/wire"

// apply follows PrepRequestProcessor too. It needs a right on the parent, which is checked before it is known whether the node exists.
func (op Delete) apply(t *txn) Result {
	parentPath, code := parentForChange(op.Path)
	if code != wire.CodeOK || isPermanent(op.Path) {
		return Result{Code: wire.CodeBadArguments}
	}
	parent := t.tree.get(parentPath)
	if parent == nil {
		return Result{Code: wire.CodeNoNode}
	}
	if !t.by.hasRight(permDelete, parent.acl) {
		return Result{Code: wire.CodeNoAuth}
	}
	n := t.tree.get(op.Path)
	switch {
	case n == nil:
		return Result{Code: wire.CodeNoNode}
	case versionDiffers(op.Version, n.version):
		return Result{Code: wire.CodeBadVersion}
	case len(n.children) > 0:
		return Result{Code: wire.CodeNotEmpty}
	}
	t.drop(op.Path, n)
	return Result{Path: op.Path}
}

// drop removes a node without any check. The parent's pzxid changes. Its create count stays, so that no sequence number is used twice.
func (t *txn) drop(path string, n *node) {
	parentPath, _ := SplitPath(path)
	parent := t.tree.nodes[parentPath]
	pzxid := parent.pzxid
	t.tree.remove(path)
	parent.pzxid = t.at.Zxid
	t.undo = append(t.undo, func() {
		t.tree.put(path, n)
		parent.pzxid = pzxid
	})
	t.accountDelete(path, n.data)
	t.noteChange(path, wire.EventDeleted, n)
	t.noteChange(parentPath, wire.EventChildrenChanged, parent)
}

// apply checks the quota before the version, as PrepRequestProcessor does.
func (op SetData) apply(t *txn) Result {
	path, data := op.Path, op.Data
	n, code := t.target(path, permWrite)
	if code != wire.CodeOK {
		return Result{Code: code}
	}
	if code := t.checkQuota(path, int64(len(data)-len(n.data)), 0); code != wire.CodeOK {
		return Result{Code: code}
	}
	if versionDiffers(op.Version, n.version) {
		return Result{Code: wire.CodeBadVersion}
	}
	old := *n
	t.tree.bytes += int64(len(data) - len(n.data))
	n.data, n.mzxid, n.mtime, n.version = data, t.at.Zxid, t.at.Millis, n.version+1
	t.undo = append(t.undo, func() {
		t.tree.bytes += int64(len(old.data) - len(n.data))
		n.data, n.mzxid, n.mtime, n.version = old.data, old.mzxid, old.mtime, old.version
	})
	t.accountSet(path, int64(len(data)-len(old.data)), old.data)
	t.noteChange(path, wire.EventDataChanged, n)
	return Result{Path: path, Stat: n.stat()}
}

// apply changes neither mzxid nor pzxid and fires no watch.
func (op SetACL) apply(t *txn) Result {
	if !ValidPath(op.Path) {
		return Result{Code: wire.CodeBadArguments}
	}
	fixed, code := t.by.fixACL(t.tree.rules, op.ACL)
	if code != wire.CodeOK {
		return Result{Code: code}
	}
	n, code := t.target(op.Path, permAdmin)
	if code != wire.CodeOK {
		return Result{Code: code}
	}
	if versionDiffers(op.Version, n.aversion) {
		return Result{Code: wire.CodeBadVersion}
	}
	old := *n
	n.acl, n.aversion = fixed, n.aversion+1
	t.undo = append(t.undo, func() { n.acl, n.aversion = old.acl, old.aversion })
	return Result{Path: op.Path, Stat: n.stat()}
}

// apply needs READ, because the answer reveals a node's version, or that it does not exist.
func (op Check) apply(t *txn) Result {
	n, code := t.target(op.Path, permRead)
	if code == wire.CodeOK && versionDiffers(op.Version, n.version) {
		code = wire.CodeBadVersion
	}
	return Result{Code: code, Path: op.Path}
}

// versionDiffers reports whether a write wants another version than there is.
func versionDiffers(wanted, version int32) bool { return wanted != -1 && wanted != version }

// target finds the node that a write names and checks its ACL.
func (t *txn) target(path string, perm int32) (*node, wire.Code) {
	if !ValidPath(path) {
		return nil, wire.CodeBadArguments
	}
	n := t.tree.get(path)
	if n == nil {
		return nil, wire.CodeNoNode
	}
	if !t.by.hasRight(perm, n.acl) {
		return nil, wire.CodeNoAuth
	}
	return n, wire.CodeOK
}
