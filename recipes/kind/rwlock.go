package kind

// RWLock is the kind of a lock that many readers or one writer may hold:
// Curator's InterProcessReadWriteLock, kazoo's ReadLock and WriteLock.
var RWLock = &Kind{
	Name: "rwlock",
	Doc:  "A lock that many readers or one writer hold at a time.",
	Queues: []Queue{{
		Admit:     admitReadersTogether, // not Marked, because a downgrade puts a reader with an old number ahead of others
		Exclusive: map[string]string{WireCurator: "__WRIT__", WireKazoo: "__lock__"},
		Shared:    map[string]string{WireCurator: "__READ__", WireKazoo: "__rlock__"},
	}},
	New: func() Params { return applyDefaults(&RWLockParams{}) },
}

// RWLockParams are the parameters of a read-write lock.
type RWLockParams struct{ Common }

// Kind and Fields implement [Params].
func (*RWLockParams) Kind() *Kind       { return RWLock }
func (p *RWLockParams) Fields() []Field { return bind(rwlockTable, p) }

var rwlockTable = commonTable(WireCurator, WireKazoo)

// admitReadersTogether makes a reader wait for the nearest writer ahead of it, and a writer for its immediate predecessor, whatever that
// is. Because readers wait for the nearest writer and not for the first, a release wakes no reader that still has another writer ahead
// (kazoo #649).
func admitReadersTogether(_ Params, queue []Contender, i int) (admitted bool, behind int) {
	if !queue[i].Shared {
		return firstHolds(nil, queue, i)
	}
	for j := i - 1; j >= 0; j-- {
		if !queue[j].Shared {
			return false, j
		}
	}
	return true, 0
}
