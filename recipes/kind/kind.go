package kind

import (
	"slices"
	"strconv"
	"strings"
)

// Kind describes one recipe type. Values are the package-level variables
// [Namespace], [Mutex], [RWLock], [Semaphore], [Election], [Keyed] and [Once]; compare them
// by pointer.
type Kind struct {
	// Name is the block type in the configuration and "type" in the payload.
	Name string
	// Doc is one sentence for the language reference.
	Doc string
	// Container is true for a kind that holds other nodes instead of contenders.
	Container bool
	// Children are the persistent child nodes that the wire format needs. They are
	// created and deleted in the same transaction as the node itself.
	Children []string
	// Record is the one of Children whose data the lock's users write, "" if there is none; see [Kind.PartACL].
	Record string
	// Kept is true for a kind whose locks should have a holder at all times.
	Kept bool
	// Queues are the queues of contenders; the first one decides who holds.
	Queues []Queue
	// Key returns the parameters of the lock of each key, for a family; nil for other kinds. A family has no queue of its own.
	Key func(p Params) Params
	// New returns parameters with their defaults.
	New func() Params
	// Permits returns how many contenders may hold at the same time. Each is one
	// permit, and a caller may take several. nil if a caller is always one contender.
	Permits func(p Params) int
}

// PartACL is the access list of one of Children, where that of the lock node is list. Who may queue, which is to create, may write
// the record instead, and create and delete nothing below it. Who administers it, or only reads, has the same rights as on the lock.
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
	// Gate marks an antechamber: being first in it grants nothing yet.
	Gate bool
	// Admit decides, for a queue sorted by [SortContenders], whether the
	// contender at index i is admitted and, if not, behind which one it is: the
	// index of the contender whose departure must be awaited, or [AnyChange] when
	// no single departure decides; it means nothing if admitted. It is pure: the same queue gives the same answer
	// to every client, so all clients agree without talking to each other.
	Admit func(p Params, queue []Contender, i int) (admitted bool, behind int)
	// Marked means that a contender that holds after a wait writes that into its
	// node ([Holder].Held), unless it gives the lock back at once, and that its
	// successor may conclude from this that it is next. That requires a queue in
	// which nobody can appear ahead of others.
	Marked bool
	// Plain means that nodes contain only the ID of their owner, instead of a [Holder].
	Plain bool
	// Exclusive and Shared are the markers in contender names, by wire format.
	// Shared is nil if the kind has no shared mode.
	Exclusive, Shared map[string]string
}

// Dir is the node whose children are the contenders of the queue, in the lock at path.
func (q Queue) Dir(path string) string {
	if q.Child == "" {
		return path
	}
	return JoinPath(path, q.Child)
}

// AnyChange means that the contender has to look again after any change of the queue.
const AnyChange = -1

// The kinds in the order of the help texts, and the markers of their contenders.
var (
	kinds   []*Kind
	markers []marker
	_       = register(Namespace, Mutex, RWLock, Semaphore, Election, Keyed)
)

// register makes kinds known. A further kind calls it in an init of its own file,
// which runs after the line above.
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

func (k *Kind) String() string {
	if k == nil {
		return "unknown kind"
	}
	return k.Name
}

// firstHolds is the admission rule of a queue with one holder: the front holds
// and everybody else waits for its own predecessor, so that a departure wakes
// exactly one (the herd-free rule of ZooKeeper's lock recipe).
func firstHolds(_ Params, _ []Contender, i int) (admitted bool, behind int) { return i == 0, i - 1 }

// The wire formats: naming schemes of a lock's contenders. Contenders with names of
// different schemes do not exclude each other, so a lock has one wire format, on
// which all its clients must agree.
const (
	// WireCurator writes the names of Apache Curator's recipes. Clients of
	// Curator, go-zookeeper and this library exclude each other.
	WireCurator = "curator"
	// WireKazoo writes the names of Python's kazoo. Stock kazoo clients,
	// go-zookeeper and this library exclude each other; Curator clients do not
	// see these contenders and must not use such a lock.
	WireKazoo = "kazoo"
)

// Common are the parameters that every recipe has.
type Common struct {
	// Description is for people; it changes nothing.
	Description string
	Limits
	// MaxWaiters bounds how many contenders may queue behind the holders; 0 means
	// no bound. The library enforces it when it joins a queue; foreign clients
	// ignore it.
	MaxWaiters int
	// Wire is the naming scheme of the contenders: [WireCurator], which is also
	// meant by "", or [WireKazoo].
	Wire string
	// Order is the place of the lock in the order in which its namespace wants locks taken: see [Place]. "" means none.
	Order string
}

func (c *Common) common() *Common { return c }

// shared are parameters with the common ones among them.
type shared interface {
	Params
	common() *Common
}

// commonTable is the table of the common parameters. wires are the wire formats for which the kind has names.
func commonTable(wires ...string) []parameter {
	return append([]parameter{
		stringField("description", func(p shared) *string { return &p.common().Description }, "", "What the lock is for, for people who read the plan."),
		intField("max_waiters", func(p shared) *int { return &p.common().MaxWaiters }, 0, 0, 1_000_000, "How many contenders may wait; 0 means no limit. Enforced by this library only."),
		// Contenders of two naming schemes in one queue do not see each other, so
		// the scheme can only change while the queue is empty.
		stringField("wire", func(p shared) *string { return &p.common().Wire }, WireCurator, "Naming scheme of the contenders: curator (Java) or kazoo (Python).", wires...).replaces(),
		stringField("order", func(p shared) *string { return &p.common().Order }, "", "The place of the lock in the order of a namespace.").derived(),
	}, limitsTable()...)
}

// Place is a lock's place in an order that a namespace declares: of two locks of one order, the one with the lower rank is taken first.
type Place struct {
	Of   string // the path of the namespace
	Rank int
}

// String writes what Common.Order has: the rank and the path.
func (p Place) String() string { return strconv.Itoa(p.Rank) + " " + p.Of }

// PlaceOf returns the place that the parameters have; false if they have none.
func PlaceOf(p Params) (Place, bool) {
	s, ok := p.(shared)
	if !ok {
		return Place{}, false
	}
	rank, of, ok := strings.Cut(s.common().Order, " ")
	n, err := strconv.Atoi(rank)
	return Place{of, n}, ok && err == nil
}

// Mutex is the kind of a lock with one holder: Curator's InterProcessMutex,
// kazoo's Lock.
var Mutex = &Kind{
	Name: "mutex",
	Doc:  "A lock with one holder at a time, granted first come, first served.",
	Queues: []Queue{{
		Admit: firstHolds, Marked: true,
		Exclusive: map[string]string{WireCurator: "lock-", WireKazoo: "__lock__"},
	}},
	New: func() Params { return applyDefaults(&MutexParams{}) },
}

// MutexParams are the parameters of a mutex.
type MutexParams struct{ Common }

// Kind implements [Params].
func (*MutexParams) Kind() *Kind { return Mutex }

// Fields implements [Params].
func (p *MutexParams) Fields() []Field { return bind(mutexTable, p) }

var mutexTable = commonTable(WireCurator, WireKazoo)
