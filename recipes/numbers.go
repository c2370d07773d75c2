package recipes

import "sync/atomic"

// numbers tells whether the contender that was just created is alone, by its number: no listing is needed then.
//
// A queue counts the children that were ever created in it, and gives each the count as its number
// (PrepRequestProcessor.pRequest2TxnCreate; deletes do not count). So nobody was created between two contenders whose
// numbers follow each other. If the earlier one was the first in its queue, nobody was ahead of it. And when it has gone,
// the later one is alone.
//
// That holds for one life of the queue's node, and for one leader's count of it: a count that a new leader reads from disk may
// have been wrong (ZOOKEEPER-3249). So numbers belongs to a declaration, which is not used any more when its watch has fired,
// for whatever reason. See prove. Not for servers before 3.4.7 and 3.5.2, which could give a number twice after a transaction that
// failed (ZOOKEEPER-1624).
type numbers struct {
	czxid int64 // of the queue's node: tells one life of it from another
	// The number, plus 1, of the newest contender of ours that was the first and has gone. In the upper half: how many
	// contenders before it, in a row, were ours as well.
	last atomic.Uint64
}

// inARow is how many contenders before our last one must have been ours for the next create to go without a listing. A wrong
// guess costs a round trip.
const inARow = 2

// gone records that a contender has gone that was the first. Calls that cross each other may lose one: who follows that one
// lists.
func (n *numbers) gone(seq int32) {
	row := uint64(0)
	if n.follows(seq) {
		row = min(n.last.Load()>>32+1, inARow)
	}
	n.last.Store(row<<32 | uint64(uint32(seq)+1))
}

// follows reports whether nobody was created between the contender that went last and the one with this number.
func (n *numbers) follows(seq int32) bool {
	return uint32(n.last.Load()) == uint32(seq) && seq != 0
}

// guess reports whether the next contender is likely to follow ours.
func (n *numbers) guess() bool { return n.last.Load()>>32 >= inARow }
