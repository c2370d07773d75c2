package plan

import (
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

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

// Everybody reports whether an entry applies to anybody who can reach the servers. In ZooKeeper's ip
// scheme an address may have a prefix length, and /0 matches all.
func Everybody(a kind.ACL) bool {
	return a.Scheme == "world" || a.Scheme == "ip" && len(a.ID) > 2 && a.ID[len(a.ID)-2:] == "/0"
}

// Need returns the rights that an administrator needs on a node of this kind to manage it later. The
// rights to create and delete children are rights on the parent. So on a lock without structural
// children we need no c or d: its contenders are not ours to delete. Breaking a lock needs d, and the
// transaction fails with a clear error when it is missing.
func Need(k *kind.Kind) kind.Perm {
	if k.Container || len(k.Children) > 0 {
		return kind.PermAll
	}
	return kind.PermRead | kind.PermWrite | kind.PermAdmin
}

// Names returns the identities of a list, without hashes.
func Names(list kind.List) (out []string) {
	for _, a := range list {
		out = append(out, Identity{a.Scheme, a.ID}.String())
	}
	return out
}

// Access is who may use the tool's own nodes: the root, .locktree and everything in it. No identity is in both lists.
type Access struct {
	Admins  kind.List `json:"admins"`            // may apply: all rights
	Readers kind.List `json:"readers,omitempty"` // may plan and look: READ
}

// List is the access list of the nodes that belong to this stack alone.
func (a *Access) List() kind.List { return slices.Concat(a.Admins, a.Readers).Normalize() }

// Administrators are those who are declared, nil if nobody says.
func (a *Access) Administrators() kind.List {
	if a == nil {
		return nil
	}
	return a.Admins
}

// Standing is what a stack has to do with the set of its root.
type Standing string

// The standings.
const (
	StandsOpen     Standing = "open"     // nobody names one: it belongs to whoever applies first
	StandsInForce  Standing = "in force" // what is named is there, or comes with the first apply
	StandsReplaces Standing = "replaces" // what is named takes the place of what is there
)

// RootSet is the set of a root, seen from one stack.
type RootSet struct {
	Standing Standing
	There    kind.List // nil if there is none yet, or we may not read it
	Limited  bool      // the plan leaves the lists of the tool's nodes as they are
}

// Named reports whether the set is after the plan what the stack names.
func (s RootSet) Named() bool {
	return s.Standing == StandsInForce || s.Standing == StandsReplaces && !s.Limited
}

// AccessOf is who a set is.
func AccessOf(list kind.List) *Access {
	admins := slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin == 0 })
	readers := slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin != 0 })
	return &Access{Admins: admins, Readers: readers}
}
