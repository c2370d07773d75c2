package record

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/locktree/locktree/recipes/kind"
)

// Format is the version of the record that this package writes, and the only one that it reads.
const Format = 3

// Record is the stack's record, the data of <root>/.locktree/stacks/<stack>: what no node says. Every transaction of an apply
// writes it, together with the nodes; the last one of a destroy deletes it. Untracked is its only list of nodes. So its size
// depends on Untracked, Outputs and, until an apply has finished, Pending.
type Record struct {
	Apply   string            // id of the apply that wrote it
	Key     string            // of the sums in the nodes, see [Sum]
	Pending []Pending         // access lists that apply has still to set
	Outputs map[string]Output // by name
	// Access is the set of the root that was last in force for this stack; nil if none is known. While an apply replaces the set,
	// Next is the new one.
	Access, Next kind.List
	// Untracked are the paths of nodes that no walk from the root finds, see plan/tx. A plan allows them 400,000 bytes.
	Untracked []string
	// Nodes says which nodes the apply left, see [Roll].
	Nodes []byte

	Extra map[string]json.RawMessage // fields of newer versions, kept
}

// Output is an output value of a configuration as the record keeps it.
type Output struct {
	Type  json.RawMessage `json:"type,omitempty"`  // of the value, in cty's JSON notation; may be nil
	Value json.RawMessage `json:"value,omitempty"` // nil when Sensitive: such values are stored nowhere
	// Sensitive outputs are known only by name.
	Sensitive bool `json:"sensitive,omitempty"`
}

// Pending is a change of access lists that an apply has begun: the part of it that ZooKeeper cannot do in a transaction. It does
// not name the nodes.
type Pending struct {
	From kind.List `json:"from"`
	To   kind.List `json:"to"`
}

// IndexPath returns the path of the record of a stack: <root>/.locktree/stacks/<stack>.
func IndexPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "stacks"), stack)
}

// LockPath returns the path of the apply lock of a stack: <root>/.locktree/apply/<stack>.
func LockPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "apply"), stack)
}

// HistoryPath returns the path of the history of a stack: <root>/.locktree/history/<stack>. A destroy leaves it.
func HistoryPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "history"), stack)
}

// OwnPaths are the tool's own nodes in .locktree that are this stack's alone.
func OwnPaths(root, stack string) []string {
	return []string{IndexPath(root, stack), LockPath(root, stack), HistoryPath(root, stack)}
}

// LockPayload returns the data of the apply lock: the declaration of an ordinary
// mutex. acl is the access list of its contenders.
func LockPayload(stack string, acl kind.List) ([]byte, error) {
	params := kind.Mutex.New()
	params.(*kind.MutexParams).Description = fmt.Sprintf("Held while an apply of stack %s is under way.", stack)
	p := &kind.Payload{Params: params, Owner: kind.Owner{Stack: stack, Addr: "apply lock"}, ChildACL: acl, Gen: 1}
	return p.Encode()
}

// ScaffoldPath returns <root>/.locktree, where the tool keeps its own nodes.
func ScaffoldPath(root string) string { return kind.JoinPath(root, ".locktree") }

// Encode writes the record as JSON with sorted keys: equal records give equal bytes.
func (x *Record) Encode() ([]byte, error) {
	doc := make(map[string]any, len(x.Extra)+7)
	for k, v := range x.Extra {
		doc[k] = v
	}
	doc["locktree"], doc["apply"], doc["key"] = Format, x.Apply, x.Key
	if len(x.Pending) > 0 {
		doc["pending_acl"] = x.Pending
	}
	if len(x.Access) > 0 {
		doc["access"] = x.Access
	}
	if len(x.Next) > 0 {
		doc["next"] = x.Next
	}
	if len(x.Untracked) > 0 {
		doc["untracked"] = x.Untracked
	}
	if len(x.Nodes) > 0 {
		doc["nodes"] = x.Nodes
	}
	if len(x.Outputs) > 0 {
		doc["outputs"] = x.Outputs
	}
	return json.Marshal(doc)
}

// ErrNotRecord: the data is not the record of a stack.
var ErrNotRecord = errors.New("plan: not a record of locktree")

// VersionError: the record was written by a newer version of this program.
type VersionError struct{ Got, Reads int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("plan: the record was written in format %d, this program reads format %d: upgrade locktree", e.Got, e.Reads)
}

// Decode reads what Encode wrote. The error is [ErrNotRecord], a [*VersionError], or says what is damaged; no input makes it panic.
func Decode(data []byte) (*Record, error) {
	var doc map[string]json.RawMessage
	// A record always has these fields, another node's payload does not have them.
	if err := json.Unmarshal(data, &doc); err != nil || doc["locktree"] == nil || doc["apply"] == nil {
		return nil, ErrNotRecord
	}
	read := func(key string, to any) error {
		raw, ok := doc[key]
		if !ok {
			return nil
		}
		delete(doc, key)
		if err := json.Unmarshal(raw, to); err != nil {
			return fmt.Errorf("plan: damaged record: %s: %w", key, err)
		}
		return nil
	}
	var format int
	// The format is checked first: what a newer program wrote may look different without being damaged.
	switch err := read("locktree", &format); {
	case err != nil:
		return nil, err
	case format > Format:
		return nil, &VersionError{Got: format, Reads: Format}
	case format < Format:
		return nil, fmt.Errorf("plan: damaged record: locktree: %d is not a format", format)
	}
	x := &Record{}
	err := cmp.Or(read("apply", &x.Apply), read("key", &x.Key), read("outputs", &x.Outputs), read("access", &x.Access), read("next", &x.Next))
	err = cmp.Or(err, read("pending_acl", &x.Pending), read("untracked", &x.Untracked), read("nodes", &x.Nodes))
	if err != nil {
		return nil, err
	}
	if len(doc) > 0 {
		x.Extra = doc
	}
	return x, nil
}

// Left reports whether a node is as the last apply left it.
func (x *Record) Left(path string, payload *kind.Payload, list kind.List) bool {
	return x != nil && payload != nil && Fits(x.Key, path, payload, list)
}

// The data of <root>/.locktree is the id of the ensemble, as far as this root is concerned: a random text that the first apply
// writes, and no later one changes. A configuration can pin it (plan.Tree.EnsembleID), so that nothing is planned or applied where
// the same names happen to lead to other servers.

// ensembleMark is the data of <root>/.locktree.
type ensembleMark struct {
	ID string `json:"ensemble"`
}

var ensembleID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// IsEnsembleID reports whether a text can be the id of an ensemble.
func IsEnsembleID(text string) bool { return ensembleID.MatchString(text) }

// MarkOf is the data that says that an ensemble has an id.
func MarkOf(id string) []byte {
	data, _ := json.Marshal(ensembleMark{id}) // a text: it cannot fail
	return data
}

// MarkedAs is the id in the data of <root>/.locktree, "" if there is none.
func MarkedAs(data []byte) string {
	var m ensembleMark
	if json.Unmarshal(data, &m) != nil || !IsEnsembleID(m.ID) {
		return ""
	}
	return m.ID
}

// Standing says how the administrators that a stack names relate to the set of its root.
type Standing string

// The standings.
const (
	StandsOpen     Standing = "open"     // no administrators are named: the root belongs to the first who applies
	StandsInForce  Standing = "in force" // the named set is there, or the first apply creates it
	StandsReplaces Standing = "replaces" // the named set takes the place of the present one
)

// RootSet is the set of a root, its administrators and readers, seen from one stack.
type RootSet struct {
	Standing Standing
	There    kind.List // nil if there is none yet, or we may not read it
	Limited  bool      // the plan leaves the lists of the tool's nodes as they are
}

// Named reports whether the root's set will be the one that the stack names.
func (s RootSet) Named() bool {
	return s.Standing == StandsInForce || s.Standing == StandsReplaces && !s.Limited
}

// Before is what the record and the nodes say about the stack before the plan, as far as the transactions need it.
type Before struct {
	Key       string                     // of the sums, "" if the stack has none yet
	Fresh     bool                       // this apply made the key
	Noted     kind.List                  // the set of the root, by the record
	Next      kind.List                  // the set that was to take the place of Noted
	Named     kind.List                  // the administrators that the stack names
	Insiders  kind.List                  // the identities that may apply after the plan, and everybody while the stack is open
	Leaving   kind.List                  // the administrators whom the plan shuts out
	Lost      bool                       // the record is damaged, or gone although there are nodes of the stack
	Unmarked  bool                       // .locktree exists, can be read and has no data, so the ensemble has no id
	Untracked []string                   // paths in the record whose nodes cannot be understood, to be kept
	Left      Roll                       // the roll before the plan: the nodes that exist, and declared ones deleted by hand
	Extra     map[string]json.RawMessage // unknown fields of the record, to be kept
}

// An apply notes in the mark of each node what it leaves there. That is a sum over the path, the data and the access list, keyed
// with a random value in the stack's record. A node with another sum was changed by hand.
//
// A program that uses a lock can read its mark, but only the key computes a sum. So it can neither test a guessed password with
// the sum nor forge a node that passes for one that an apply left. A reader of the stack has the key, but the servers do not show
// it the password hashes in access lists. With the key it could test guesses, so the list enters the sum through a slow function
// (PBKDF2). A plan calls that function only if the first part of a node's sum proves that an apply wrote path and data. Without
// this proof, a program could create nodes with many different lists and make every plan slow.

// KeyLen is the length of a key: hexadecimal digits of 128 random bits.
const KeyLen = 32

// slowness is the number of rounds for one list: a few milliseconds, once for each different list.
const slowness = 10_000

// Written returns the bytes that a sum covers, except for the list.
//
// A lock that drains counts as active, because an apply drains it for a while: this is no change by hand. The sum also leaves out
// how the node was made and since when it has its schedule, because neither is declared.
func Written(path string, payload *kind.Payload) ([]byte, error) {
	p := *payload
	if p.State == kind.StateDraining {
		p.State = kind.StateActive
	}
	p.Made, p.Since, p.Sum = kind.MadeHere, 0, ""
	data, err := p.Encode()
	return slices.Concat([]byte(path), []byte{0}, data, []byte{0}), err
}

// Sum returns what an apply notes in the mark of a node.
func Sum(key, path string, payload *kind.Payload, list kind.List) (string, error) {
	written, err := Written(path, payload)
	if err != nil {
		return "", err
	}
	return proof(key, written) + whole(key, written, list), nil
}

// proof is the first part of a sum: the id of the key, and a keyed hash of the path and the data.
func proof(key string, written []byte) string { return keyID(key) + keyed(key, written)[:4] }

// whole is the rest of a sum: a keyed hash of the path, the data and the list.
func whole(key string, written []byte, list kind.List) string {
	return keyed(key, append(written, SlowSum(key, list)...))[:8]
}

// keyID is the beginning of every sum of a key. A stack whose record was lost gets another key, and one whose old record was
// restored has a former key. Sums of other keys do not tell who changed a node.
func keyID(key string) string { return keyed(key, []byte("sums"))[:4] }

func keyed(key string, text []byte) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write(text)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Sealed reports whether a node has a sum of this key.
func Sealed(key string, payload *kind.Payload) bool {
	return key != "" && payload.Sum != "" && strings.HasPrefix(payload.Sum, keyID(key))
}

// Proven reports whether the first part of a node's sum fits its path and data.
func Proven(key, path string, payload *kind.Payload) bool {
	written, err := Written(path, payload)
	return err == nil && strings.HasPrefix(payload.Sum, proof(key, written))
}

// Fits reports whether a node's sum fits its path, data and list.
func Fits(key, path string, payload *kind.Payload, list kind.List) bool {
	if key == "" || payload.Sum == "" {
		return false
	}
	written, err := Written(path, payload)
	begins := proof(key, written)
	return err == nil && strings.HasPrefix(payload.Sum, begins) && payload.Sum == begins+whole(key, written, list)
}

// slowSums caches results. A stack has few different lists, and every node has one of them.
var slowSums = struct {
	sync.Mutex
	of map[string][]byte
}{of: map[string][]byte{}}

// maxSlowSums bounds the results that are kept.
const maxSlowSums = 4096

// SlowSum computes the slow part of a sum, that of an access list.
func SlowSum(key string, list kind.List) []byte {
	text, _ := json.Marshal(list.Normalize()) // strings: it cannot fail
	id := key + string(text)
	slowSums.Lock()
	defer slowSums.Unlock()
	if known, ok := slowSums.of[id]; ok {
		return known
	}
	out, err := pbkdf2.Key(sha256.New, string(text), []byte(key), slowness, sha256.Size)
	if err != nil { // impossible: these arguments are valid
		panic(err)
	}
	if len(slowSums.of) >= maxSlowSums {
		clear(slowSums.of)
	}
	slowSums.of[id] = out
	return out
}

// SlowSums counts the cached results. Tests use it to show that nodes written by others cause no slow computation.
func SlowSums() int {
	slowSums.Lock()
	defer slowSums.Unlock()
	return len(slowSums.of)
}

// The roll notes the paths of the nodes that an apply leaves, in a fixed number of bytes of the record. The paths fall into
// buckets, and each bucket is the exclusive or (xor) of their hashes. After xor with the hashes of the present paths, a bucket is
// the xor of the missing ones. Gaussian elimination over bits finds which candidates give that value. With at most mostSought
// candidates, a wrong choice fits with a chance of at most one in 2^40.
const (
	rollBuckets = 64
	rollBytes   = 16
	mostSought  = rollBytes*8 - 40 // the most candidates of a bucket among which a choice is looked for
)

// Roll notes a set of paths.
type Roll []byte

// NewRoll returns the roll of no paths.
func NewRoll() Roll { return make(Roll, rollBuckets*rollBytes) }

// RollOf returns a copy of the roll in a record; nil if it is not a roll.
func RollOf(noted []byte) Roll {
	if len(noted) != rollBuckets*rollBytes {
		return nil
	}
	return bytes.Clone(noted)
}

func (r Roll) bucket(i int) []byte { return r[i*rollBytes:][:rollBytes] }

// Toggle adds a path, or removes one that the roll has.
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

// chosen returns the paths whose hashes give h by xor; nil if no choice of paths gives it, or more than one choice.
func chosen(h []byte, paths []string) []string {
	type row struct{ hash, from []byte } // from has a bit for each path that the hash was made from
	size := (len(paths) + 7) / 8
	var rows []row
	// reduce clears in r the leading bit of every row, by xor with that row (Gaussian elimination). No two rows have the same
	// leading bit.
	reduce := func(r row) row {
		for _, o := range rows {
			if at := first(o.hash); r.hash[at/8]&(0x80>>(at%8)) != 0 {
				xor(r.hash, o.hash)
				xor(r.from, o.from)
			}
		}
		return r
	}
	if len(paths) > mostSought { // too many to choose among: all of them if their hashes give h, otherwise none
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
		r.from[i/8] |= 1 << (i % 8)
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
		if rest.from[i/8]&(1<<(i%8)) != 0 {
			out = append(out, path)
		}
	}
	return out
}

// first returns the index of the first bit that is set, -1 if there is none.
func first(h []byte) int {
	for i, b := range h {
		if b != 0 {
			return i*8 + bits.LeadingZeros8(b)
		}
	}
	return -1
}

// Chosen returns those of the paths whose hashes give the roll. If no choice fits a bucket, or more than one, it returns no path
// of that bucket.
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
