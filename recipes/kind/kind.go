package kind

import (
	"slices"
)

// Kind describes one recipe type. Values are the package-level variables [Namespace], [Mutex], [RWLock], [Semaphore], [Election], [Keyed]
// and [Once]; compare them by pointer.
type Kind struct {
	// Name is the block type in the configuration and "type" in the payload.
	Name string
	// Doc is one sentence for the language reference.
	Doc string
	// Container is true for a kind whose nodes hold the nodes of other declarations and no contenders, as a namespace does. ZooKeeper's
	// container nodes are another thing.
	Container bool
	// Children are the persistent child nodes that the wire format needs, created and deleted in the same transaction as the node itself.
	Children []string
	// Record is the name among Children whose node's data the lock's users write, "" if there is none; see [Kind.PartACL].
	Record string
	// Kept is true for a kind whose locks should have a holder at all times.
	Kept bool
	// Queues are the queues of contenders; the first one decides who holds.
	Queues []Queue
	// Key returns the parameters of the lock of each key, for a family; nil for other kinds. A family has no queue of its own.
	Key func(p Params) Params
	// New returns parameters with their defaults.
	New func() Params
	// Permits returns how many contenders may hold at the same time. Each contender is one permit, and a caller may take several.
	// Permits is nil if a caller is always one contender.
	Permits func(p Params) int
}

// PartACL returns the access list of the child called name. The parameter list is the access list of the lock node. An identity with
// CREATE on the lock gets WRITE on the record instead of CREATE and DELETE. An identity that administers the lock, or only reads it,
// keeps its rights.
func (k *Kind) PartACL(name string, list List) List {
	if k == nil || name == "" || name != k.Record {
		return list
	}
	out := slices.Clone(list)
	for i, a := range out {
		if a.Perms&PermAdmin == 0 && a.Perms&PermCreate != 0 {
			out[i].Perms = a.Perms&^(PermCreate|PermDelete) | PermWrite
		}
	}
	return out
}

// Queue is one directory of contenders of a kind.
type Queue struct {
	// Child is the sub-node that holds the contenders; "" is the lock node itself.
	Child string
	// Gate marks the queue before the deciding one: its first contender holds nothing yet, but may compete for a permit.
	Gate bool
	// Admit decides, for a queue sorted by [SortContenders], whether the contender at index i is admitted. If not, the result
	// behind is the index of the contender that must leave first, or [AnyChange] when no single departure decides. Admit is pure:
	// the same queue gives the same answer to every client, so all clients agree without talking to each other.
	Admit func(p Params, queue []Contender, i int) (admitted bool, behind int)
	// If Marked is set, a contender that was granted after a wait notes the grant in its node ([Holder].Held), unless it leaves at
	// once. A contender that took over its node from another goroutine may note the grant without having waited. In a queue with
	// one holder, the successor may conclude from the note that it is next. Marked is for queues where no contender can appear
	// ahead of others.
	Marked bool
	// Plain means that nodes contain only the ID of their owner, instead of a [Holder].
	Plain bool
	// Exclusive and Shared are the markers in contender names, by wire format. Shared is nil if the kind has no shared mode.
	Exclusive, Shared map[string]string
}

// Dir is the node whose children are the contenders of the queue, in the lock at path.
func (q Queue) Dir(path string) string {
	if q.Child == "" {
		return path
	}
	return JoinPath(path, q.Child)
}

// markers returns the markers of the queue's contenders.
func (q Queue) markers() (all []marker) {
	for _, text := range q.Exclusive {
		all = append(all, marker{text, false})
	}
	for _, text := range q.Shared {
		all = append(all, marker{text, true})
	}
	return all
}

// AnyChange means that the contender has to look again after any change of the queue.
const AnyChange = -1

func (k *Kind) String() string {
	if k == nil {
		return "unknown kind"
	}
	return k.Name
}

// firstHolds is the admission rule of a queue with one holder. The front holds, and each waiter waits for its predecessor. So a departure
// does not wake the whole queue (the herd-free rule of ZooKeeper's lock recipe).
func firstHolds(_ Params, _ []Contender, i int) (admitted bool, behind int) { return i == 0, i - 1 }

// The kinds in the order of the help texts.
var (
	kinds []*Kind
	_     = register(Namespace, Mutex, RWLock, Semaphore, Election, Keyed)
)

// register makes kinds known. A further kind calls register in an init of its own file, which runs after package variables are set.
func register(more ...*Kind) bool {
	for _, k := range more {
		kinds = append(kinds, k)
		for _, q := range k.Queues {
			for _, m := range q.markers() {
				if !slices.Contains(markers, m) {
					markers = append(markers, m)
				}
			}
		}
	}
	return true
}

// All returns every kind, containers first, then in the order of declaration.
func All() []*Kind { return slices.Clone(kinds) }

// Lookup returns the kind of that name, or nil.
func Lookup(name string) *Kind {
	for _, k := range kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}
