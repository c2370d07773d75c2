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

// The permissions. CREATE and DELETE on a node apply to its children: whether a
// node may be deleted is decided by its parent's ACL (PrepRequestProcessor, case
// delete).
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

// String returns the letters of permLetters.
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
	Scheme string // world, digest, ip, x509, auth
	ID     string // digest: user:base64(sha1(user:password)), never a password
	Perms  Perm
}

// String shows the entry without the hash of a digest, from which a weak password
// could be guessed.
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

// NormalizeACL merges entries of the same identity and sorts them. The server drops
// duplicates and promises no order, so only normalised lists can be compared.
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

// EqualACL reports whether two lists grant the same. A digest that the server has
// masked as "user:x", as it does for readers without ADMIN (FinalRequestProcessor,
// case getACL), equals any digest of that user: the reader cannot know more. A
// user may have several digests, such as two while a password is being replaced;
// masked they look the same, but their number still counts.
func EqualACL(a, b []ACL) bool {
	var hidden map[string]bool // users whose hash is masked in one of the lists
	for _, list := range [][]ACL{a, b} {
		for _, e := range list {
			if user, masked := digestUser(e); masked {
				if hidden == nil {
					hidden = map[string]bool{}
				}
				hidden[user] = true
			}
		}
	}
	if hidden == nil { // the fast path, which nearly all comparisons of a large tree take
		return slices.Equal(NormalizeACL(a), NormalizeACL(b))
	}
	restA, ofA := splitACL(a, hidden)
	restB, ofB := splitACL(b, hidden)
	if !slices.Equal(restA, restB) {
		return false
	}
	for user := range hidden {
		if !ofA[user].couldBe(ofB[user]) {
			return false
		}
	}
	return true
}

// Masked reports whether the server has hidden the hash of a digest, as it does from readers without ADMIN on the node
// (FinalRequestProcessor, getACL).
func (a ACL) Masked() bool {
	_, masked := digestUser(a)
	return masked
}

// digestUser returns the user of a digest, and whether its hash is masked.
func digestUser(a ACL) (user string, masked bool) {
	user, hash, _ := strings.Cut(a.ID, ":")
	return user, a.Scheme == "digest" && hash == "x"
}

// granted is what a list grants to one user: the permissions of each digest, sorted.
type granted struct {
	perms  []Perm
	masked bool // several of them may belong to one digest that the list contains more than once
}

// splitACL takes the digests of the hidden users out of a list, and normalises the rest.
func splitACL(list []ACL, hidden map[string]bool) (rest []ACL, of map[string]granted) {
	of = map[string]granted{}
	var shown []ACL
	for _, a := range list {
		if user, masked := digestUser(a); masked {
			of[user] = granted{append(of[user].perms, a.Perms), true}
		} else {
			shown = append(shown, a)
		}
	}
	for _, a := range NormalizeACL(shown) {
		if user, _ := digestUser(a); a.Scheme == "digest" && hidden[user] {
			of[user] = granted{append(of[user].perms, a.Perms), of[user].masked}
		} else {
			rest = append(rest, a)
		}
	}
	for _, g := range of {
		slices.Sort(g.perms)
	}
	return rest, of
}

// couldBe reports whether both may be the same digests. With the same number of
// entries they are if the permissions are the same. A longer list, if masked, may
// contain fewer digests than entries; of these only the sum is known.
func (g granted) couldBe(other granted) bool {
	more, fewer := g, other
	if len(more.perms) < len(fewer.perms) {
		more, fewer = other, g
	}
	if len(more.perms) == len(fewer.perms) {
		return slices.Equal(more.perms, fewer.perms)
	}
	return more.masked && len(fewer.perms) > 0 && sum(more.perms) == sum(fewer.perms)
}

func sum(perms []Perm) (all Perm) {
	for _, p := range perms {
		all |= p
	}
	return all
}

// WorldAll is ZooKeeper's open list: everybody may do everything.
func WorldAll() []ACL { return []ACL{{Scheme: "world", ID: "anyone", Perms: PermAll}} }
