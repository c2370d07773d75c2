package record

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/locktree/locktree/recipes/kind"
)

// An apply notes in each node's own mark what it leaves there: a sum over the path, the data and the access list, keyed with a
// random value in the stack's record. A node with another sum was changed by hand.
//
// A program that uses a lock can read its mark. A sum can be computed only with the key. Without it no program can guess a
// password from a sum, or make a node that passes for one that an apply has left. Readers of the stack have the key, and the
// servers hide the hashes in lists from them. So the list enters the sum through a slow function. It is only called for nodes
// whose path and data an apply has written, which a part of the sum proves. Otherwise a program that may create nodes could have
// it called for a list of each of them.

// KeyLen is the length of a key: hexadecimal digits of 128 random bits.
const KeyLen = 32

// slowness is the number of rounds for one list: a few milliseconds, once for each different list.
const slowness = 10_000

// Written is what a sum is of, but for the list.
//
// A lock that drains counts as active: an apply drains it, for a while, which is not a change by hand. How the node was made, and since
// when it has its schedule, is not declared either.
func Written(path string, payload *kind.Payload) ([]byte, error) {
	p := *payload
	if p.State == kind.StateDraining {
		p.State = kind.StateActive
	}
	p.Made, p.Since, p.Sum = kind.MadeHere, 0, ""
	data, err := p.Encode()
	return slices.Concat([]byte(path), []byte{0}, data, []byte{0}), err
}

// Sum is what an apply notes of a node that it leaves like this.
func Sum(key, path string, payload *kind.Payload, list kind.List) (string, error) {
	written, err := Written(path, payload)
	if err != nil {
		return "", err
	}
	return proof(key, written) + whole(key, written, list), nil
}

// proof is the first part of a sum: the name of the key, and what is of the node without its list.
func proof(key string, written []byte) string { return keyID(key) + keyed(key, written)[:4] }

// whole is the rest of a sum.
func whole(key string, written []byte, list kind.List) string {
	return keyed(key, append(written, SlowSum(key, list)...))[:10]
}

// keyID is what the sums of a key begin with. A stack that has lost its record has another key, and one that got an old record
// back has a former one. Sums of other keys say nothing about who changed a node.
func keyID(key string) string { return keyed(key, []byte("sums"))[:2] }

func keyed(key string, text []byte) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write(text)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Sealed reports whether a node has a sum of this key.
func Sealed(key string, payload *kind.Payload) bool {
	return key != "" && payload.Sum != "" && strings.HasPrefix(payload.Sum, keyID(key))
}

// Proven reports whether a node has the part of its sum that says nothing of the list.
func Proven(key, path string, payload *kind.Payload) bool {
	written, err := Written(path, payload)
	return err == nil && strings.HasPrefix(payload.Sum, proof(key, written))
}

// Fits reports whether a node has the sum of its contents.
func Fits(key, path string, payload *kind.Payload, list kind.List) bool {
	if key == "" || payload.Sum == "" {
		return false
	}
	written, err := Written(path, payload)
	begins := proof(key, written)
	return err == nil && strings.HasPrefix(payload.Sum, begins) && payload.Sum == begins+whole(key, written, list)
}

// slowSums are the results for the lists of late: a stack has few, and every node has one of them.
var slowSums = struct {
	sync.Mutex
	of map[string][]byte
}{of: map[string][]byte{}}

// maxSlowSums bounds the results that are kept.
const maxSlowSums = 4096

// SlowSum is the slow part of a sum: that of an access list.
func SlowSum(key string, list kind.List) []byte {
	text, _ := json.Marshal(list.Normalize()) // strings: it cannot fail
	id := key + string(text)
	slowSums.Lock()
	defer slowSums.Unlock()
	if known, ok := slowSums.of[id]; ok {
		return known
	}
	out, err := pbkdf2.Key(sha256.New, string(text), []byte(key), slowness, sha256.Size)
	if err != nil { // only of arguments that are not these
		panic(err)
	}
	if len(slowSums.of) >= maxSlowSums {
		clear(slowSums.of)
	}
	slowSums.of[id] = out
	return out
}

// SlowSums is for how many lists the slow part of a sum was computed, of late: what others may write must not add to it.
func SlowSums() int {
	slowSums.Lock()
	defer slowSums.Unlock()
	return len(slowSums.of)
}

// The record notes which nodes an apply leaves, in a fixed number of bytes: the paths fall into buckets, and each bucket is the
// exclusive or of their hashes. So the missing paths are those whose hashes make up the difference to the present ones. Only one
// choice of a few paths does that, up to a chance of one in 2^40.
const (
	rollBuckets = 64
	rollBytes   = 16
	mostSought  = rollBytes*8 - 40 // paths of a bucket
)

// Roll is the note of a set of paths.
type Roll []byte

// NewRoll is that of no paths.
func NewRoll() Roll { return make(Roll, rollBuckets*rollBytes) }

// RollOf is what a record notes, as a copy; nil if that is no roll.
func RollOf(noted []byte) Roll {
	if len(noted) != rollBuckets*rollBytes {
		return nil
	}
	return bytes.Clone(noted)
}

func (r Roll) bucket(i int) []byte { return r[i*rollBytes:][:rollBytes] }

// Toggle adds a path, or takes it out.
func (r Roll) Toggle(path string) {
	bucket, h := hashed(path)
	xor(r.bucket(bucket), h)
}

func hashed(path string) (bucket int, h []byte) {
	sum := sha256.Sum256([]byte(path))
	return int(sum[0]) % rollBuckets, sum[1:][:rollBytes]
}

func xor(a, b []byte) {
	for i := range a {
		a[i] ^= b[i]
	}
}

// chosen returns which of the paths together have this hash. It is nil if no choice has, or not only one.
func chosen(h []byte, paths []string) []string {
	type row struct{ hash, of []byte } // of: the paths that it was made from, a bit each
	size := (len(paths) + 7) / 8
	var rows []row
	// reduce leaves of a hash what the rows cannot make. Each row has a first bit of its own.
	reduce := func(r row) row {
		for _, o := range rows {
			if at := first(o.hash); r.hash[at/8]&(0x80>>(at%8)) != 0 {
				xor(r.hash, o.hash)
				xor(r.of, o.of)
			}
		}
		return r
	}
	if len(paths) > mostSought { // all or none
		for _, path := range paths {
			_, one := hashed(path)
			xor(h, one)
		}
		if first(h) >= 0 {
			return nil
		}
		return paths
	}
	for i, path := range paths {
		_, one := hashed(path)
		r := row{one, make([]byte, size)}
		r.of[i/8] |= 1 << (i % 8)
		if r = reduce(r); first(r.hash) < 0 {
			return nil
		}
		rows = append(rows, r)
	}
	rest := reduce(row{h, make([]byte, size)})
	if first(rest.hash) >= 0 {
		return nil
	}
	var out []string
	for i, path := range paths {
		if rest.of[i/8]&(1<<(i%8)) != 0 {
			out = append(out, path)
		}
	}
	return out
}

// first is the first bit that is set, -1 if there is none.
func first(h []byte) int {
	for i, b := range h {
		if b != 0 {
			return i*8 + bits.LeadingZeros8(b)
		}
	}
	return -1
}

// Chosen are those of the paths that make up the roll. A bucket has none if no choice fits it, or more than one.
func (r Roll) Chosen(paths []string) (out []string) {
	var of [rollBuckets][]string
	for _, path := range paths {
		bucket, _ := hashed(path)
		of[bucket] = append(of[bucket], path)
	}
	for bucket, paths := range of {
		out = append(out, chosen(r.bucket(bucket), paths)...)
	}
	return out
}
