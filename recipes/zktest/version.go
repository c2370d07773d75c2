package zktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// version is a release of ZooKeeper: major, minor, patch.
type version [3]int

// asBuiltByDebian is the release that the server is, unless WithVersion says another.
var asBuiltByDebian = version{3, 8, 0}

// newest are the patches that are known of each minor release, for a version without one.
var newest = map[[2]int]int{{3, 8}: 6, {3, 9}: 5}

// WithVersion makes the server answer as another release of ZooKeeper does, "3.9" or "3.9.1", as far as it differs from 3.8.0 in
// what clients see: from 3.9.0 on, events carry the id of the transaction that fired them (ZOOKEEPER-4655), a create2 in a
// transaction is answered with a Stat (ZOOKEEPER-4026), a write that cannot be decoded is no transaction, and a transaction with
// an unknown mode of creation cannot, and a check outside of one is not implemented; from 3.9.2 and 3.8.4 on, exists needs READ
// on a node that exists (ZOOKEEPER-2590). The four-letter words say the version. It panics if v is no version.
//
// Several modes of watches on one path (ZOOKEEPER-4466) and their removal by type (ZOOKEEPER-4471, ZOOKEEPER-4472), both of
// 3.9.0, stay as in 3.8.0: docs/versions.md.
func WithVersion(v string) Option {
	parsed, err := parseVersion(v)
	if err != nil {
		panic(err)
	}
	return func(o *options) { o.version = parsed }
}

func parseVersion(text string) (v version, err error) {
	parts := strings.Split(text, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return v, fmt.Errorf("zktest: %q is no version of ZooKeeper: want one like 3.9 or 3.9.5", text)
	}
	for i, part := range parts {
		if v[i], err = strconv.Atoi(part); err != nil {
			return v, fmt.Errorf("zktest: %q is no version of ZooKeeper: %w", text, err)
		}
	}
	if len(parts) == 2 {
		v[2] = newest[[2]int(v[:2])]
	}
	return v, nil
}

func (v version) since(other version) bool { return slices.Compare(v[:], other[:]) >= 0 }

// String is what the words report; clients' parsers need the date.
func (v version) String() string {
	return fmt.Sprintf("%d.%d.%d-zktest, built on 2022-02-25 08:49 UTC", v[0], v[1], v[2])
}

// eventsHaveZxids: ZOOKEEPER-4655.
func (v version) eventsHaveZxids() bool { return v.since(version{3, 9, 0}) }

// decodesFirst: a request is decoded before it gets a transaction id.
func (v version) decodesFirst() bool { return v.since(version{3, 9, 0}) }

// create2HasStat: ZOOKEEPER-4026, of a create2 in a transaction.
func (v version) create2HasStat() bool { return v.since(version{3, 9, 0}) }

// existsNeedsRead: ZOOKEEPER-2590.
func (v version) existsNeedsRead() bool {
	return v.since(version{3, 9, 2}) || v.since(version{3, 8, 4}) && !v.since(version{3, 9, 0})
}
