package inspect

// Keys says how the keys of a family are used. A look reads a bounded number of keys, so the comment of each count says which keys the
// count covers. If the family has fanout, a look lists only some of its directories, and later looks list the others. So InUse may be
// several looks old, unless the servers answer the four-letter word dump.
type Keys struct {
	InUse  int // the nodes of keys, without those that are known to be empty
	Queues int // the keys in use whose numbers of holders and waiters are known: all keys in use if the word dump lists the contenders
	Waited int // the keys counted in Queues that have waiters
	Looked int // the keys counted in Queues whose holders and first waiters were read
	Empty  int // nodes that had no contender when they were read: a crash left them; the servers or the next user delete them
	Closed int // nodes that we may not read
	// Busiest is the key with the most waiters, of those counted in Queues; nil if no key has waiters. Longest is the key that has been
	// held for the longest time, of those counted in Looked; nil if no holder was read.
	Busiest, Longest *Report
	Read             []*Report // the reports of the keys counted in Looked
	// Dirs is the number of directories of the family. Listed is the number of directories that were listed so far. Both are 0 if all keys
	// in use are known.
	Listed, Dirs int
}
