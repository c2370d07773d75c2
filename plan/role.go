package plan

import "github.com/locktree/locktree/recipes/kind"

// Role is a word for a set of permissions. It means different permissions in different places, because deleting a lock needs a
// right on its namespace, and deleting a contender one on its lock.
type Role string

// The roles.
const (
	RoleLock    Role = "lock"    // use the locks: queue, hold, release
	RoleObserve Role = "observe" // see who holds and waits
	RoleAdmin   Role = "admin"   // everything
)

// Roles are the words.
var Roles = []string{string(RoleLock), string(RoleObserve), string(RoleAdmin)}

// RolePerms are a role's permissions on a namespace, on a lock node (and the children its wire format needs) and on a
// contender.
type RolePerms struct{ Namespace, Lock, Contender kind.Perm }

// Perms expands the role; ok is false for a word that is not a role.
//
// "lock" never gets c or d on a namespace: with d there, a program could delete a lock on which it has no right at all. On the
// lock node it gets exactly crd: c to queue, r to list, d to release. On contenders it also gets w, for the confirming write
// and for revocation requests.
func (r Role) Perms() (RolePerms, bool) {
	const queue = kind.PermCreate | kind.PermRead | kind.PermDelete
	switch r {
	case RoleLock:
		return RolePerms{kind.PermRead, queue, queue | kind.PermWrite}, true
	case RoleObserve:
		return RolePerms{kind.PermRead, kind.PermRead, kind.PermRead}, true
	case RoleAdmin:
		return RolePerms{kind.PermAll, kind.PermAll, kind.PermAll}, true
	default:
		return RolePerms{}, false
	}
}
