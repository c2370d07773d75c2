package kind

// Semaphore is the kind of a lock with a fixed number of permits, in the layout of Curator's InterProcessSemaphoreV2. Permits are
// nodes below "leases". Clients queue below "locks", where only the first competes for a permit. Clients of this library first
// try without queueing.
var Semaphore = &Kind{
	Name:     "semaphore",
	Doc:      "A lock with a number of permits: a caller takes one or more, and waits while too few are free.",
	Children: []string{"leases", "locks"},
	Queues: []Queue{
		// What Marked adds to a permit is for reports only. A successor does not wait for one certain permit, so it does not use
		// Holder.Held.
		{Child: "leases", Admit: admitUpToPermits, Marked: true, Exclusive: map[string]string{WireCurator: "lease-"}},
		{Child: "locks", Gate: true, Admit: firstHolds, Exclusive: map[string]string{WireCurator: "lock-"}},
	},
	New:     func() Params { return applyDefaults(&SemaphoreParams{Permits: 1}) },
	Permits: func(p Params) int { return p.(*SemaphoreParams).Permits },
}

// SemaphoreParams are the parameters of a semaphore.
type SemaphoreParams struct {
	Common
	// Permits is how many permits exist. Raising it admits waiters at once. Lowering it interrupts no holder, but stops new grants until
	// enough permits have come back.
	Permits int
}

// noKazooSemaphore: kazoo's Semaphore creates its permits in the lock node and its gate beside it. Its client does not count
// again after it has created a permit.
const noKazooSemaphore = "kazoo's semaphore uses other nodes and does not count again after creating a permit, so Go and Python programs together would exceed the limit"

// Kind and Fields implement [Params].
func (*SemaphoreParams) Kind() *Kind       { return Semaphore }
func (p *SemaphoreParams) Fields() []Field { return bind(semaphoreTable, p) }

var semaphoreTable = func() []parameter {
	table := commonTable(WireCurator)
	for i, f := range table {
		if f.Name == "wire" {
			table[i].refused = map[string]string{WireKazoo: noKazooSemaphore}
		}
	}
	return append(table, parameter{Name: "permits", at: func(p Params) any { return &p.(*SemaphoreParams).Permits }, Number: true, Required: true, Min: 1, Max: 1_000_000,
		Doc: "How many permits exist; can be changed while the semaphore is in use."})
}()

// admitUpToPermits admits the first Permits contenders. Any of them may leave first and admit the next one, hence AnyChange. Curator's
// first semaphore waited for a fixed index and lost wake-ups.
func admitUpToPermits(p Params, _ []Contender, i int) (admitted bool, behind int) {
	return i < p.(*SemaphoreParams).Permits, AnyChange
}
