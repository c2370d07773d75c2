package plan

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
)

// A read of a large tree would ask for as many access lists as there are nodes, nearly all of which nobody has ever touched. The
// record says of which nodes that is known.
//
// It names transactions, each with an aversion. A node that the transaction created and that has this aversion has the access list
// that its sum notes:
//
//   - The czxid says which incarnation of its path a node is. At one aversion it has one list. The aversion named is the lowest that
//     any node of the transaction had when the record was written. An aversion only grows, so no other node comes to have it.
//   - It was true when the record was written. Either the same apply created the nodes, with the lists that it noted, or set the lists
//     of all of them; or all were read when the apply was planned, and were as noted (count). An apply that sets lists names
//     transactions only once all are set.
//   - Lists counts at the one version of the record's node that it was written for. A copy, and a record put back by hand, are other
//     versions. Who has no key can note no other list in a node.

// Lists says which access lists are known.
type Lists struct {
	At Stamp
	Of []Creation // sorted
}

// Creation names the nodes that a transaction has created and that have a certain aversion.
type Creation struct{ Czxid, Aversion int64 }

func (c Creation) compare(o Creation) int {
	return cmp.Or(cmp.Compare(c.Czxid, o.Czxid), cmp.Compare(c.Aversion, o.Aversion))
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
	l.Of = make([]Creation, (len(data)-n)/16)
	_, _ = binary.Decode(data[n:], binary.BigEndian, l.Of) // of that size
	return err
}

// Found notes which version of its node the record is. What it says about access lists counts only there.
func (x *Index) Found(at Stamp) {
	if x.Lists == nil || x.Lists.At != at {
		x.Lists = &Lists{At: at}
	}
	slices.SortFunc(x.Lists.Of, Creation.compare)
}

// KnowsLists reports whether there is a node of which [Index.Knows] the list.
func (x *Index) KnowsLists() bool { return x != nil && x.Lists != nil && len(x.Lists.Of) > 0 }

// Knows reports whether the list of a node is the one that its sum notes.
func (x *Index) Knows(n *Node) bool {
	if !x.KnowsLists() {
		return false
	}
	_, of := slices.BinarySearchFunc(x.Lists.Of, Creation{n.Live.Czxid, int64(n.Live.Aversion)}, Creation.compare)
	return of
}

// tally is of the nodes of one transaction.
type tally struct {
	czxid    int64
	nodes    int
	aversion int32 // the lowest
	lowest   int   // nodes that have it
	differs  bool  // one of those is not as noted
}

// tallies are by czxid.
type tallies map[int64]tally

func (all tallies) add(czxid int64, aversion int32, noted bool) {
	t := all[czxid]
	if t.nodes == 0 || aversion < t.aversion {
		t = tally{czxid, t.nodes, aversion, 0, false}
	}
	if aversion == t.aversion {
		t.lowest, t.differs = t.lowest+1, t.differs || !noted
	}
	t.nodes++
	all[czxid] = t
}

func (all tallies) sorted() []tally {
	return slices.SortedFunc(maps.Values(all), func(a, b tally) int { return cmp.Compare(a.czxid, b.czxid) })
}

// count tallies the nodes that were read. There are none if one of them may be of any transaction.
func count(nodes []*Node) []tally {
	all := tallies{}
	for _, n := range nodes {
		if n.Live == nil || n.Live.Czxid == 0 {
			return nil
		}
		all.add(n.Live.Czxid, n.Live.Aversion, n.Live.AsLeft)
	}
	return all.sorted()
}

// named are the transactions that are worth it.
func named(all []tally) (of []Creation) {
	for _, t := range all {
		if t.lowest >= worth && !t.differs {
			of = append(of, Creation{t.czxid, int64(t.aversion)})
		}
	}
	return of
}

// afterSteps is what the record names when access lists have been set, too: transactions of which all nodes got theirs.
func (l Lists) afterSteps(read []tally, steps []ACLStep) *Lists {
	set := tallies{}
	for _, s := range steps {
		set.add(s.Czxid, s.Aversion, true)
	}
	maps.DeleteFunc(set, func(czxid int64, t tally) bool {
		return !slices.ContainsFunc(read, func(r tally) bool { return r.czxid == czxid && r.nodes == t.nodes })
	})
	l.Of = append(named(set.sorted()), slices.DeleteFunc(slices.Clone(l.Of), func(c Creation) bool { return set[c.Czxid].nodes > 0 })...)
	l.At.Version++
	return &l
}
