// Package release knows the releases of ZooKeeper that a server can answer like, and their differences.
package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a release of ZooKeeper: major, minor, patch.
type Version [3]int

// AsBuiltByDebian is the release that a server answers like by default.
var AsBuiltByDebian = Version{3, 8, 0}

// newestPatches has the newest known patch of each minor release. Parse uses it for a version without a
// patch.
var newestPatches = map[[2]int]int{{3, 8}: 6, {3, 9}: 5}

// Parse reads a version, such as 3.9 or 3.9.5.
func Parse(text string) (v Version, err error) {
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
		v[2] = newestPatches[[2]int(v[:2])]
	}
	return v, nil
}

func (v Version) since(other Version) bool { return slices.Compare(v[:], other[:]) >= 0 }

// String returns the text that the four-letter words report; clients' parsers need the date.
func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d-zktest, built on 2022-02-25 08:49 UTC", v[0], v[1], v[2])
}

// EventsHaveZxids: an event has the zxid of the write that fired it (ZOOKEEPER-4655).
func (v Version) EventsHaveZxids() bool { return v.since(Version{3, 9, 0}) }

// DecodesFirst: a request is decoded before it gets a transaction id.
func (v Version) DecodesFirst() bool { return v.since(Version{3, 9, 0}) }

// Create2HasStat: the result of a create2 in a multi has a Stat (ZOOKEEPER-4026).
func (v Version) Create2HasStat() bool { return v.since(Version{3, 9, 0}) }

// ExistsNeedsRead: exists needs READ on the node (ZOOKEEPER-2590).
func (v Version) ExistsNeedsRead() bool {
	return v.since(Version{3, 9, 2}) || v.since(Version{3, 8, 4}) && !v.since(Version{3, 9, 0})
}
