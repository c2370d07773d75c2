package plan

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/locktree/locktree/recipes/kind"
)

// What an apply leaves at a node is noted in the node's own mark, as a sum over the path, the data and the access list, keyed with
// a random value in the stack's record. A node with another sum was changed by hand.
//
// Whoever uses a lock can read its mark. Without the key nobody can compute a sum, so nobody can guess a password from it, or make
// a node that passes for one that an apply has left. Readers of the stack have the key, and the servers hide the hashes in lists
// from them. So the list enters the sum through a slow function. It is only called for nodes whose path and data an apply has
// written, which a part of the sum proves: otherwise whoever may create nodes could have it called for a list of each of them.

// KeyLen is the length of a key: hexadecimal digits of 128 random bits.
const KeyLen = 32

// slowness is the number of rounds for one list: a few milliseconds, once for each different list.
const slowness = 10_000

// Keyed is the plan with a key for the sums that it writes, if the stack has none yet. The key must be random, of KeyLen digits.
func (p *Plan) Keyed(fresh string) *Plan {
	q := *p
	if q.prior.Key == "" {
		q.prior.Key, q.prior.Fresh = fresh, true
	}
	return &q
}

// key is that of the sums that the plan writes: of a plan that is only measured, one of the same length.
func (p *Plan) key() string {
	if p.prior.Key == "" {
		return strings.Repeat("0", KeyLen)
	}
	return p.prior.Key
}

// written is what a sum is of, but for the list.
//
// A lock that drains counts as active: an apply drains it, for a while, which is not a change by hand. How the node was made, and since
// when it has its schedule, is not declared either.
func (n *Node) written() ([]byte, error) {
	p := *n.Payload
	if p.State == kind.StateDraining {
		p.State = kind.StateActive
	}
	p.Made, p.Since, p.Sum = kind.MadeHere, 0, ""
	data, err := p.Encode()
	return slices.Concat([]byte(n.Path), []byte{0}, data, []byte{0}), err
}

// sum is what an apply notes of a node that it leaves like this.
func (n *Node) sum(key string) (string, error) {
	written, err := n.written()
	if err != nil {
		return "", err
	}
	return proof(key, written) + whole(key, written, n.ACL), nil
}

// proof is the first part of a sum: the name of the key, and what is of the node without its list.
func proof(key string, written []byte) string { return keyID(key) + keyed(key, written)[:4] }

// whole is the rest of a sum.
func whole(key string, written []byte, list kind.List) string {
	return keyed(key, append(written, slowSum(key, list)...))[:10]
}

// keyID is what the sums of a key begin with. A stack that has lost its record has another key, and one that got an old record back
// has a former one: sums of other keys say nothing about who changed a node.
func keyID(key string) string { return keyed(key, []byte("sums"))[:2] }

func keyed(key string, text []byte) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write(text)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// sealed reports whether a node has a sum of this key.
func (n *Node) sealed(key string) bool {
	return key != "" && n.Payload.Sum != "" && strings.HasPrefix(n.Payload.Sum, keyID(key))
}

// fits reports whether a node has the sum of what it is.
func (n *Node) fits(key string) bool {
	if key == "" || n.Payload.Sum == "" {
		return false
	}
	written, err := n.written()
	begins := proof(key, written)
	return err == nil && strings.HasPrefix(n.Payload.Sum, begins) && n.Payload.Sum == begins+whole(key, written, n.ACL)
}

// mark is the data of a node as the plan leaves it. A node of no stack has no sum, nor has one whose list is hidden from us: what
// the plan says of that was never compared.
func (p *Plan) mark(c *Change) ([]byte, error) {
	marked := *c.After.Payload
	marked.Sum = ""
	if marked.Owner.Stack != "" && !c.Hides() {
		var err error
		if marked.Sum, err = c.After.sum(p.key()); err != nil {
			return nil, err
		}
	}
	return marked.Encode()
}

// Hides reports whether the node has a list afterwards that was not shown to us in full: it stays, or was taken over.
func (c *Change) Hides() bool {
	stays := c.Before != nil && c.Action != Create && !c.anew() && c.Before.ACL.Equal(c.After.ACL)
	return c.After.ACL.Masked() || stays && c.Before.ACL.Masked()
}

// slowSums are the results for the lists of late: a stack has few, and every node has one of them.
var slowSums = struct {
	sync.Mutex
	of map[string][]byte
}{of: map[string][]byte{}}

// maxSlowSums bounds the results that are kept.
const maxSlowSums = 4096

func slowSum(key string, list kind.List) []byte {
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
