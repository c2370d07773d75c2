// Package moment finds out when transactions were committed. Servers keep no time for most of them, but every node tells the
// transactions and the times of its creation and of its last write. A later transaction has a later time, so two known times bound the
// times of all transactions between them.
//
//	known := moment.Sort(moments)        // of all nodes that were seen
//	before := moment.After(known, zxid)   // zxid was committed before this time
package moment

import (
	"cmp"
	"slices"
	"time"
)

// Moment is a transaction with a known time.
type Moment struct {
	Zxid int64
	At   time.Time
}

// Sort sorts moments by transaction. If the time of a moment is after the time of the next moment, Sort lowers it to that time.
func Sort(all []Moment) []Moment {
	slices.SortFunc(all, func(a, b Moment) int { return cmp.Compare(a.Zxid, b.Zxid) })
	for i := len(all) - 2; i >= 0; i-- {
		if all[i+1].At.Before(all[i].At) {
			all[i].At = all[i+1].At
		}
	}
	return all
}

// After returns the time of the first known transaction after zxid; zero if none is known.
func After(all []Moment, zxid int64) time.Time {
	i, _ := slices.BinarySearchFunc(all, zxid+1, func(m Moment, z int64) int { return cmp.Compare(m.Zxid, z) })
	if i == len(all) {
		return time.Time{}
	}
	return all[i].At.UTC()
}
