package kind

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Perm is a set of ZooKeeper permissions, with ZooKeeper's own bits.
type Perm int32

// The permissions. CREATE and DELETE on a node are about its children: who may
// delete a node is decided by its parent (PrepRequestProcessor, case delete).
const (
	PermRead Perm = 1 << iota
	PermWrite
	PermCreate
	PermDelete
	PermAdmin
	PermAll = PermRead | PermWrite | PermCreate | PermDelete | PermAdmin
)

var permLetters = []struct {
	letter byte
	perm   Perm
}{{'c', PermCreate}, {'d', PermDelete}, {'r', PermRead}, {'w', PermWrite}, {'a', PermAdmin}}

// String writes the letters in the order of ZooKeeper's command line: cdrwa.
func (p Perm) String() string {
	var b strings.Builder
	for _, l := range permLetters {
		if p&l.perm != 0 {
			b.WriteByte(l.letter)
		}
	}
	return b.String()
}

// ParsePerm reads letters in any order, each at most once.
func ParsePerm(s string) (Perm, error) {
	var p Perm
	for _, c := range []byte(s) {
		i := slices.IndexFunc(permLetters, func(l struct {
			letter byte
			perm   Perm
		}) bool {
			return l.letter == c
		})
		switch {
		case i < 0:
			return 0, fmt.Errorf("%q is not a permission: use letters of cdrwa (create, delete, read, write, admin)", string(c))
		case p&permLetters[i].perm != 0:
			return 0, fmt.Errorf("permission %q is given twice in %q", string(c), s)
		}
		p |= permLetters[i].perm
	}
	if p == 0 {
		return 0, fmt.Errorf("no permission given: use letters of cdrwa (create, delete, read, write, admin)")
	}
	return p, nil
}

// ACL is one entry of a ZooKeeper access list.
type ACL struct {
	Scheme string // world, digest, ip, x509, auth
	ID     string // digest: user:base64(sha1(user:password)), never a password
	Perms  Perm
}

// String shows the entry without the hash of a digest, which is enough to
// guess a weak password from.
func (a ACL) String() string {
	id := a.ID
	if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
		id = user
	}
	return a.Scheme + ":" + id + ":" + a.Perms.String()
}

// MarshalJSON writes the triple [scheme, id, letters].
func (a ACL) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]string{a.Scheme, a.ID, a.Perms.String()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *ACL) UnmarshalJSON(data []byte) error {
	var t []string
	if err := json.Unmarshal(data, &t); err != nil {
		return fmt.Errorf("an access entry must be [scheme, id, permissions]: %w", err)
	}
	if len(t) != 3 {
		return fmt.Errorf("an access entry must be [scheme, id, permissions], not %d strings", len(t))
	}
	p, err := ParsePerm(t[2])
	if err != nil {
		return err
	}
	*a = ACL{Scheme: t[0], ID: t[1], Perms: p}
	return nil
}

// NormalizeACL merges entries of the same identity and sorts: the server drops
// duplicates and keeps no promise about order, so only normalised lists can be
// compared.
func NormalizeACL(in []ACL) []ACL {
	out := make([]ACL, 0, len(in))
	for _, a := range in {
		i := slices.IndexFunc(out, func(b ACL) bool { return b.Scheme == a.Scheme && b.ID == a.ID })
		if i >= 0 {
			out[i].Perms |= a.Perms
			continue
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b ACL) int {
		return cmp.Or(cmp.Compare(a.Scheme, b.Scheme), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// EqualACL reports whether two lists grant the same. A digest the server masked
// to "user:x", as it does for readers without ADMIN (FinalRequestProcessor,
// case getACL), equals any digest of that user: the reader cannot know more.
func EqualACL(a, b []ACL) bool {
	return slices.EqualFunc(NormalizeACL(a), NormalizeACL(b), func(x, y ACL) bool {
		return x.Scheme == y.Scheme && x.Perms == y.Perms && sameID(x, y)
	})
}

// sameID compares two ids of one scheme. "x" for a hash stands for any: see EqualACL.
func sameID(x, y ACL) bool {
	if x.ID == y.ID {
		return true
	}
	ux, hx, _ := strings.Cut(x.ID, ":")
	uy, hy, _ := strings.Cut(y.ID, ":")
	return x.Scheme == "digest" && ux == uy && (hx == "x" || hy == "x")
}

// Role is a word of the configuration language for a set of permissions. It
// means different permissions in different places, because deleting a lock is
// a right of its namespace and deleting a contender a right of its lock.
type Role string

// The roles.
const (
	RoleLock    Role = "lock"    // use the locks: queue, hold, release
	RoleObserve Role = "observe" // see who holds and waits
	RoleAdmin   Role = "admin"   // everything
)

// RolePerms is what a role means on a namespace, on a lock node (and its
// structural children) and on a contender.
type RolePerms struct{ Namespace, Lock, Contender Perm }

// Perms expands the role; ok is false for a word that is no role.
//
// "lock" never gets c or d on a namespace: with d there, a program with no right
// at all on a lock could delete it. On the lock node it gets exactly crd: c
// queues, r lists, d releases. Contenders add w, for the confirming write and for
// revocation requests.
func (r Role) Perms() (RolePerms, bool) {
	switch r {
	case RoleLock:
		return RolePerms{PermRead, PermCreate | PermRead | PermDelete, PermCreate | PermRead | PermWrite | PermDelete}, true
	case RoleObserve:
		return RolePerms{PermRead, PermRead, PermRead}, true
	case RoleAdmin:
		return RolePerms{PermAll, PermAll, PermAll}, true
	default:
		return RolePerms{}, false
	}
}

// WorldAll is ZooKeeper's open list: everybody may do everything.
func WorldAll() []ACL { return []ACL{{Scheme: "world", ID: "anyone", Perms: PermAll}} }
