package record

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

// Chosen are those of the paths that make up the roll: of a bucket for which no choice does, or not only one, none.
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
