package plan

import (
	"bytes"
	"crypto/sha256"
	"math/bits"
)

// The record notes which nodes an apply leaves, in a fixed number of bytes: the paths fall into buckets, and each bucket is the
// exclusive or of their hashes. So the paths that are missing are those whose hashes make up the difference to what is there. Only
// one choice of a few paths does that, up to a chance of one in 2^40.
const (
	rollBuckets = 64
	rollBytes   = 16
	mostSought  = rollBytes*8 - 40 // paths of a bucket
)

// roll is the note of a set of paths.
type roll []byte

func newRoll() roll { return make(roll, rollBuckets*rollBytes) }

func (r roll) bucket(i int) []byte { return r[i*rollBytes:][:rollBytes] }

// toggle adds a path, or takes it out.
func (r roll) toggle(path string) {
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
	type row struct{ hash, of []byte } // of: from which paths it was made, a bit each
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

// missing finds the declared nodes that the last apply left and that are gone. Nodes that may or may not be among those that it left
// are sought with them: a mark may be lost, hidden, changed or copied.
func (d *sides) missing() {
	d.gone = map[string]bool{}
	x := d.current.Index
	if x == nil || len(x.Nodes) != rollBuckets*rollBytes {
		return
	}
	left := roll(bytes.Clone(x.Nodes))
	var sought [rollBuckets][]string
	seek := func(path string) {
		bucket, _ := hashed(path)
		sought[bucket] = append(sought[bucket], path)
	}
	for _, n := range d.current.Nodes {
		if d.ours(n) && !d.drifted(n) {
			left.toggle(n.Path)
		} else {
			seek(n.Path)
		}
	}
	for _, path := range d.current.Unreadable {
		if d.have[path] == nil {
			seek(path)
		}
	}
	for _, n := range d.desired {
		if d.have[n.Path] == nil {
			seek(n.Path)
		}
	}
	for bucket, paths := range sought {
		for _, path := range chosen(left.bucket(bucket), paths) {
			d.gone[path] = d.have[path] == nil && d.want[path] != nil
		}
	}
}

// left is the roll before the first transaction: what is there, and what is missing and may stay so.
func (d *selection) left() {
	d.p.prior.Left = newRoll()
	for _, n := range d.current.Nodes {
		if d.ours(n) {
			d.p.prior.Left.toggle(n.Path)
		}
	}
	for path, gone := range d.gone {
		if gone {
			d.p.prior.Left.toggle(path)
		}
	}
}

// roll is the one that a transaction leaves.
func (b *batcher) roll(tx *Transaction) []byte {
	next := newRoll()
	copy(next, b.left)
	ours := func(n *Node) bool { return n != nil && n.Payload.Owner.Stack == b.p.Stack }
	for _, c := range tx.Changes {
		before := c.Action == Create && c.Drift || c.Before != nil && c.Before.Payload != nil && ours(c.Before)
		if before != ours(c.After) {
			next.toggle(c.Path)
		}
	}
	return next
}
