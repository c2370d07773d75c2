package inspect

// Keys is how the keys of a family are used. A look reads a bounded number of them, so each count says which keys it covers. A look at a
// family with fanout lists some of its directories in turn. So InUse may be several looks old, unless the servers answer the four-letter
// word dump.
type Keys struct {
	InUse  int // the nodes of keys, without those that are known to be empty
	Queues int // keys of InUse with a known number of holders and waiters: all of them if dump lists the contenders
	Waited int // keys of Queues with waiters
	Looked int // keys of Queues whose holders and first waiters were read
	Empty  int // nodes without a contender when they were read: a crash left them; the servers or the next user delete them
	Closed int // nodes that we may not read
	// Busiest is the key of Queues with the most waiters, nil if there are none. Longest is the key of Looked that has been held
	// for the longest, nil if no holder was read.
	Busiest, Longest *Report
	Read             []*Report // the keys of Looked
	// Dirs is the number of directories of the family, and Listed how many of them were listed so far. Both are 0 if all keys in use are
	// known.
	Listed, Dirs int
}
