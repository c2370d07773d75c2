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

// The permissions. CREATE and DELETE on a node apply to its children: whether a node may be deleted is decided by its parent's ACL
// (PrepRequestProcessor, case delete).
const (
	PermRead Perm = 1 << iota
	PermWrite
	PermCreate
	PermDelete
	PermAdmin
	PermAll = PermRead | PermWrite | PermCreate | PermDelete | PermAdmin
)

const permLetters = "cdrwa" // in the order of ZooKeeper's command line

var permOf = [len(permLetters)]Perm{PermCreate, PermDelete, PermRead, PermWrite, PermAdmin}

// String returns the letters of the permissions, in the order of permLetters.
func (p Perm) String() string {
	var b strings.Builder
	for i, perm := range permOf {
		if p&perm != 0 {
			b.WriteByte(permLetters[i])
		}
	}
	return b.String()
}

// ParsePerm reads letters in any order, each at most once.
func ParsePerm(s string) (Perm, error) {
	var p Perm
	for _, c := range []byte(s) {
		switch i := strings.IndexByte(permLetters, c); {
		case i < 0:
			return 0, fmt.Errorf("%q is not a permission: use letters of cdrwa (create, delete, read, write, admin)", string(c))
		case p&permOf[i] != 0:
			return 0, fmt.Errorf("permission %q is given twice in %q", string(c), s)
		default:
			p |= permOf[i]
		}
	}
	if p == 0 {
		return 0, fmt.Errorf("no permission given: use letters of cdrwa (create, delete, read, write, admin)")
	}
	return p, nil
}

// ACL is one entry of a ZooKeeper access list.
type ACL struct {
	Scheme string // world, digest, ip, sasl, x509, auth
	ID     string // digest: user:base64(sha1(user:password)), never a password
	Perms  Perm
}

// String shows the entry without the hash of a digest, because a weak password could be guessed from it.
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

// isHidden reports whether the servers have hidden the hash of a digest: they write "user:x" for clients without ADMIN on the node
// (FinalRequestProcessor, getACL).
func (a ACL) isHidden() bool {
	_, hash, _ := strings.Cut(a.ID, ":")
	return a.Scheme == "digest" && hash == "x"
}

// List is an access list.
type List []ACL

// WorldAll is ZooKeeper's open list: every client may do everything.
func WorldAll() List { return List{{Scheme: "world", ID: "anyone", Perms: PermAll}} }

// String shows the entries, sorted, without the hashes of digests.
func (l List) String() string {
	out := make([]string, len(l))
	for i, a := range l {
		out[i] = a.String()
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Masked reports whether the hash of an entry is hidden.
func (l List) Masked() bool { return slices.ContainsFunc(l, ACL.isHidden) }

// Of returns two lists. The list certain has the entries of the identity in the parameter who. The list possible has the entries
// that may belong to it: scheme and user are the same, and the hash in the entry or in who is hidden.
func (l List) Of(who ACL) (certain, possible List) {
	user, _, _ := strings.Cut(who.ID, ":")
	for _, a := range l {
		name, _, _ := strings.Cut(a.ID, ":")
		switch hides := a.isHidden() || who.isHidden(); {
		case a.Scheme != who.Scheme:
		case hides && name == user:
			possible = append(possible, a)
		case !hides && a.ID == who.ID:
			certain = append(certain, a)
		}
	}
	return certain, possible
}

// Rights adds up the rights that the list surely gives to a client with these identities (sure), and the rights that it may give
// (perhaps). An entry may give rights if its hash is hidden, or if only servers can match it (addresses, names of plug-ins,
// "auth"). Every client has the rights of the world.
func (l List) Rights(who ...ACL) (sure, perhaps Perm) {
	for _, a := range l {
		ours, maybe := a.Scheme == "world", !slices.Contains([]string{"world", "digest", "sasl", "x509"}, a.Scheme)
		for _, id := range who {
			same, alike := List{a}.Of(id)
			ours, maybe = ours || same != nil, maybe || alike != nil
		}
		switch {
		case ours:
			sure |= a.Perms
		case maybe:
			perhaps |= a.Perms
		}
	}
	return sure, perhaps
}

// Ours is Rights for a client that has read the list itself. An entry with ADMIN and a hidden hash is not that client's own:
// servers show all hashes to a client with ADMIN.
func (l List) Ours(who ...ACL) (sure, perhaps Perm) {
	return slices.DeleteFunc(slices.Clone(l), func(a ACL) bool { return a.isHidden() && a.Perms&PermAdmin != 0 }).Rights(who...)
}

// Covers reports whether the list grants all that the other list grants. Hidden hashes count as equal.
func (l List) Covers(other List) bool { return len(other.Normalize().Without(l.Normalize())) == 0 }

// Without returns the entries that no entry of another list covers. Hidden hashes count as equal.
func (l List) Without(other List) List {
	return slices.DeleteFunc(slices.Clone(l), func(a ACL) bool {
		same, alike := other.Of(a)
		return slices.ContainsFunc(slices.Concat(same, alike), func(b ACL) bool { return a.Perms&^b.Perms == 0 })
	})
}

// Normalize merges entries of the same identity and sorts them. The server drops duplicates and promises no order, so only
// normalised lists can be compared.
func (l List) Normalize() List {
	out := make(List, 0, len(l))
	for _, a := range l {
		i := slices.IndexFunc(out, func(b ACL) bool { return b.Scheme == a.Scheme && b.ID == a.ID })
		if i >= 0 {
			out[i].Perms |= a.Perms
			continue
		}
		out = append(out, a)
	}
	slices.SortFunc(out, ACL.compare)
	return out
}

func (a ACL) compare(b ACL) int {
	return cmp.Or(cmp.Compare(a.Scheme, b.Scheme), cmp.Compare(a.ID, b.ID))
}

// Equal reports whether two lists grant the same. A hidden hash equals any hash of its user: the entries of such a user are compared by
// their number and their permissions.
func (l List) Equal(other List) bool {
	users := map[string]bool{} // the users whose hash is hidden in one of the lists
	for _, list := range []List{l, other} {
		for _, a := range list {
			if a.isHidden() {
				users[a.ID] = true
			}
		}
	}
	if len(users) == 0 { // the fast path, which nearly all comparisons of a large tree take
		return slices.Equal(l.Normalize(), other.Normalize())
	}
	hide := func(list List) List {
		out := slices.DeleteFunc(slices.Clone(list), ACL.isHidden).Normalize()
		for i, a := range out {
			if user, _, _ := strings.Cut(a.ID, ":"); a.Scheme == "digest" && users[user+":x"] {
				out[i].ID = user + ":x"
			}
		}
		for _, a := range list { // hidden entries are not merged: a user may have several digests
			if a.isHidden() {
				out = append(out, a)
			}
		}
		slices.SortFunc(out, func(a, b ACL) int { return cmp.Or(a.compare(b), cmp.Compare(a.Perms, b.Perms)) })
		return out
	}
	return slices.Equal(hide(l), hide(other))
}
