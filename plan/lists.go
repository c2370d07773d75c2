package plan

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// A read of a large tree would ask for as many access lists as there are nodes, nearly all of which nobody has ever touched. The
// record says of which nodes that is known.
//
// It names transactions. A node that one of them created and whose aversion is 0 has the access list that its sum
// notes:
//
//   - The czxid says which incarnation of its path a node is. At aversion 0 its list is the one with which it was created, and
//     stays that. So what was true of the nodes of a transaction stays true, and no node of it can be added.
//   - It was true when the record was written. Either the same apply created the nodes, with the lists that it noted; or all nodes
//     of the transaction were read when the apply was planned, and were as noted (known). An apply that sets lists of its own
//     raises their aversion, and names transactions only once all are set.
//   - Lists counts at the one version of the record's node that it was written for. A copy, and a record put back by hand, are other
//     versions. Who has no key can note no other list in a node.

// Lists says which access lists are known.
type Lists struct {
	At Stamp
	Of []int64 // czxids of transactions, sorted
}

// Stamp is a version of the record's node. The time tells nodes on different servers apart, which may count the same zxids.
type Stamp struct{ Czxid, Ctime, Version int64 }

// worth is how many nodes a transaction must have created to be named, so that the names are a few bytes a node at most.
const worth = 100

// MarshalJSON writes a text whose length does not depend on the values: the size of a transaction is known before they are.
func (l Lists) MarshalJSON() ([]byte, error) {
	data, _ := binary.Append(nil, binary.BigEndian, l.At) // of a fixed size: it cannot fail
	data, _ = binary.Append(data, binary.BigEndian, l.Of)
	return json.Marshal(data)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Lists) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil {
		return err
	}
	n, err := binary.Decode(data, binary.BigEndian, &l.At)
	l.Of = make([]int64, (len(data)-n)/8)
	_, _ = binary.Decode(data[n:], binary.BigEndian, l.Of) // of that size
	return err
}

// Found notes which version of its node the record is. What it says about access lists counts only there.
func (x *Index) Found(at Stamp) {
	if x.Lists == nil || x.Lists.At != at {
		x.Lists = &Lists{At: at}
	}
	slices.Sort(x.Lists.Of)
}

// KnowsLists reports whether there is a node of which [Index.Knows] the list.
func (x *Index) KnowsLists() bool { return x != nil && x.Lists != nil && len(x.Lists.Of) > 0 }

// Knows reports whether the list of a node is the one that its sum notes.
func (x *Index) Knows(n *Node) bool {
	if !x.KnowsLists() || n.Live.Aversion != 0 {
		return false
	}
	_, of := slices.BinarySearch(x.Lists.Of, n.Live.Czxid)
	return of
}

// known are the transactions whose nodes were all found as noted, with the version of the record that was read.
func known(current *Tree) (l Lists) {
	if current.Index.Lists != nil {
		l.At = current.Index.Lists.At
	}
	count := map[int64]int{}
	for _, n := range current.Nodes {
		switch {
		case n.Live == nil || n.Live.Czxid == 0: // of any transaction
			return l
		case n.Live.Aversion != 0:
		case n.Live.AsLeft:
			count[n.Live.Czxid]++
		default:
			count[n.Live.Czxid] = math.MinInt32
		}
	}
	maps.DeleteFunc(count, func(_ int64, n int) bool { return n < worth })
	l.Of = slices.Sorted(maps.Keys(count))
	return l
}

// lists is what the record says once the last transaction is committed. Until then an apply may end between an entry and
// the access list that it notes.
func (b *batcher) lists(last bool) *Lists {
	if !last || len(b.known.Of) == 0 {
		return nil
	}
	l := b.known
	l.At.Version = int64(b.at.Version) + 1
	return &l
}
