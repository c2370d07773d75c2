package kind

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Keyed is the kind of a family of locks, one for each key. Only the family's node is declared. The node of a key is at
// [KeyedParams.Path]: the first client that locks the key makes the node, and the last one deletes it.
var Keyed = &Kind{
	Name: "keyed",
	Doc:  "A family of locks, one for each key. The node of a key exists only while a client uses the key.",
	Key:  func(p Params) Params { return p.(*KeyedParams).key() },
	New:  func() Params { return applyDefaults(&KeyedParams{Of: Mutex.Name}) },
}

// KeyedParams are the parameters of a family.
type KeyedParams struct {
	Common
	// Of names the kind of each lock: mutex, rwlock or semaphore.
	Of string
	// Permits is how many permits each semaphore has; 0 for the other kinds.
	Permits int
	// Fanout is how many directories the nodes of keys are spread over; "" means none: the nodes are children of the family's
	// node.
	Fanout string
	// Foreign is "true" if other programs may make nodes of keys, with access lists of their own.
	Foreign string
}

// Kind and Fields implement [Params].
func (*KeyedParams) Kind() *Kind       { return Keyed }
func (p *KeyedParams) Fields() []Field { return bind(keyedTable, p) }

// The clients of one key must agree on its node and on its rule of exclusion. So wire, kind and fanout cannot be changed in
// place: a client with the former declaration would use another node.
var keyedTable = append(func() []parameter {
	table := commonTable(WireCurator, WireKazoo)
	for i, f := range table {
		if f.Name == "max_waiters" {
			table[i].Doc = "How many contenders may wait for one key; 0 means no limit. Enforced by this library only."
		}
	}
	return table
}(),
	parameter{Name: "kind", at: func(p Params) any { return &p.(*KeyedParams).Of }, OneOf: []string{Mutex.Name, RWLock.Name, Semaphore.Name}, Required: true, Replace: true,
		Doc: "What the lock of each key is: mutex, rwlock or semaphore."},
	parameter{Name: "permits", at: func(p Params) any { return &p.(*KeyedParams).Permits }, Number: true, Default: 0, Max: 1_000_000,
		Doc: "How many permits each key's semaphore has; required with kind = \"semaphore\", and not allowed with another kind."},
	parameter{Name: "fanout", at: func(p Params) any { return &p.(*KeyedParams).Fanout }, Default: "", OneOf: []string{"", "16", "256"}, Replace: true,
		Doc: "How many directories the nodes of keys are spread over, for more than ten thousand keys in use at once: 16 or 256; none if it is left out."},
	parameter{Name: "foreign", at: func(p Params) any { return &p.(*KeyedParams).Foreign }, Default: "false", OneOf: []string{"false", "true"},
		Doc: "Whether other programs may make nodes of keys, with access lists of their own: true or false."},
)

// check finds errors that involve several parameters.
func (p *KeyedParams) check() error {
	switch {
	case p.Of == Semaphore.Name && p.Permits == 0:
		return &ParamError{"permits", errors.New(`is required with kind = "semaphore"`)}
	case p.Of == Semaphore.Name && p.Wire == WireKazoo:
		return &ParamError{"wire", fmt.Errorf("%q is not allowed for semaphores: %s", WireKazoo, noKazooSemaphore)}
	case p.Of != Semaphore.Name && p.Permits != 0:
		return &ParamError{"permits", fmt.Errorf(`a %s has none: remove it, or set kind = "semaphore"`, p.Of)}
	}
	return nil
}

// key returns the parameters of the lock of each key.
func (p *KeyedParams) key() Params {
	switch p.Of {
	case RWLock.Name:
		return &RWLockParams{Common: p.Common}
	case Semaphore.Name:
		return &SemaphoreParams{Common: p.Common, Permits: p.Permits}
	}
	return &MutexParams{Common: p.Common}
}

// children are the directories of Fanout: "0" to "f", or "00" to "ff".
func (p *KeyedParams) children() (all []string) {
	for i := range p.fanout() {
		all = append(all, p.child(i))
	}
	return all
}

func (p *KeyedParams) fanout() uint32 {
	n, _ := strconv.ParseUint(p.Fanout, 10, 32) // "" gives 0
	return uint32(n)
}

func (p *KeyedParams) child(i uint32) string { return fmt.Sprintf("%0*x", len(p.Fanout)-1, i) }

// MaxKey bounds a key, in bytes.
const MaxKey = 512

// Path is the node of a key in the family at path. An error says what is wrong with the key.
//
// With Fanout, the directory of a key is the CRC-32 (IEEE) of its UTF-8 bytes modulo Fanout. Its name is in hexadecimal: one
// digit for a Fanout of 16, two for 256.
func (p *KeyedParams) Path(path, key string) (string, error) {
	switch {
	case len(key) > MaxKey:
		return "", fmt.Errorf("the key is %d bytes long: at most %d are allowed", len(key), MaxKey)
	case !utf8.ValidString(key):
		return "", fmt.Errorf("the key %q is not valid UTF-8", key)
	}
	if n := p.fanout(); n > 0 {
		path += "/" + p.child(crc32.ChecksumIEEE([]byte(key))%n)
	}
	return path + "/" + KeyName(key), nil
}

// KeyName is the name of a key's node. Most keys are their own names. An escape, a percent sign with two hexadecimal digits, stands
// for each byte of "%", "/" and of characters that ZooKeeper refuses. An escape also stands for the first byte of a key that has
// another meaning as a name (".", "..", "locks", "leases"). In a key that looks like a contender ("order-lock-0000000001"), it
// stands for the last digit. The empty key is "%".
func KeyName(key string) string {
	if key == "" {
		return "%"
	}
	taken := -1
	if _, contends := ParseContender(key); contends {
		taken = len(key) - 1
	} else if key == "." || key == ".." || key == "locks" || key == "leases" {
		taken = 0
	}
	var b strings.Builder
	for i, r := range key {
		if i == taken || r == '%' || illegalRune(r) != "" {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// ParseKeyName is the inverse of [KeyName]. It reports false for a name that stands for no key.
func ParseKeyName(name string) (key string, ok bool) {
	if name == "%" {
		return "", true
	}
	key, err := url.PathUnescape(name)
	return key, err == nil && utf8.ValidString(key) && len(key) <= MaxKey && KeyName(key) == name
}
