package inspect

// Keys is how the keys of a family are used. A look reads a bounded number of them, and each count says of which keys it is. The
// directories of a family with fanout take turns, so without dump InUse may be some looks old.
type Keys struct {
	InUse  int // the nodes of keys, without those that are known to be empty
	Queues int // of InUse, those of which it is known how many hold and how many wait: all of them if dump lists the contenders
	Waited int // of Queues, those for which somebody waits
	Looked int // of Queues, those whose holders and first waiters were read: who they are, and since when they have been there
	Empty  int // nodes in which nobody was when they were read: a crash left them; the servers or the next user delete them
	Closed int // nodes that may not be read
	// Busiest is the key of Queues with the most waiters, nil if nobody waits; Longest is the key of Looked that has been held for
	// the longest, nil if no holder was read.
	Busiest, Longest *Report
	Read             []*Report // the keys of Looked
	// Listed are those of Dirs directories of the family that were listed so far. Both are 0 if all keys in use are known.
	Listed, Dirs int
}
