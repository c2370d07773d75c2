package store

import (
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// findReadable finds a node and checks its ACL.
func (t *Tree) findReadable(by Caller, path string, perms int32) (*node, wire.Code) {
	n := t.get(path)
	if n == nil {
		return nil, wire.CodeNoNode
	}
	if !by.hasRight(perms, n.acl) {
		return nil, wire.CodeNoAuth
	}
	return n, wire.CodeOK
}

// Exists needs no permission before 3.8.4 and 3.9.2.
func (t *Tree) Exists(by Caller, path string) (wire.Stat, wire.Code) {
	n := t.get(path)
	switch {
	case strings.IndexByte(path, 0) >= 0:
		return wire.Stat{}, wire.CodeBadArguments
	case n == nil:
		return wire.Stat{}, wire.CodeNoNode
	case t.rules.ExistsNeedsRead && !by.hasRight(permRead, n.acl):
		return wire.Stat{}, wire.CodeNoAuth
	}
	return n.stat(), wire.CodeOK
}

// GetData reads a node. The data must not be changed.
func (t *Tree) GetData(by Caller, path string) ([]byte, wire.Stat, wire.Code) {
	n, code := t.findReadable(by, path, permRead)
	if code != wire.CodeOK {
		return nil, wire.Stat{}, code
	}
	return n.data, n.stat(), wire.CodeOK
}

// GetChildren lists the names of a node's children, in order. The list must not be changed.
func (t *Tree) GetChildren(by Caller, path string) ([]string, wire.Stat, wire.Code) {
	n, code := t.findReadable(by, path, permRead)
	if code != wire.CodeOK {
		return nil, wire.Stat{}, code
	}
	return n.names(), n.stat(), wire.CodeOK
}

// GetACL shows digests only to clients that may change the list. GetACL needs READ or ADMIN, as in 3.8.0.
func (t *Tree) GetACL(by Caller, path string) ([]wire.ACL, wire.Stat, wire.Code) {
	n, code := t.findReadable(by, path, permRead|permAdmin)
	if code != wire.CodeOK {
		return nil, wire.Stat{}, code
	}
	acl := n.acl
	if !by.hasRight(permAdmin, n.acl) {
		acl = maskDigests(acl)
	}
	return acl, n.stat(), wire.CodeOK
}

// CountBelow counts all descendants. For the root ZooKeeper gets the same number: it leaves out the root and the root's second name.
func (t *Tree) CountBelow(by Caller, path string) (int, wire.Code) {
	if _, code := t.findReadable(by, path, permRead); code != wire.CodeOK {
		return 0, code
	}
	n := 0
	prefix := strings.TrimSuffix(path, "/") + "/"
	for at := range t.nodes {
		if at != "/" && strings.HasPrefix(at, prefix) {
			n++
		}
	}
	return n, wire.CodeOK
}

// GetEphemerals lists the caller's own ephemerals whose path begins with prefix: a prefix of the string, not of whole names.
func (t *Tree) GetEphemerals(by Caller, prefix string) []string {
	var out []string
	all := strings.TrimSpace(prefix) == "" || strings.TrimSpace(prefix) == "/"
	for _, path := range t.Owned(by.Session) {
		if all || strings.HasPrefix(path, prefix) {
			out = append(out, path)
		}
	}
	return out
}
