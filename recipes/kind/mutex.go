package kind

// Mutex is the kind of a lock with one holder: Curator's InterProcessMutex, kazoo's Lock.
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

// Kind and Fields implement [Params].
func (*MutexParams) Kind() *Kind       { return Mutex }
func (p *MutexParams) Fields() []Field { return bind(mutexTable, p) }

var mutexTable = commonTable(WireCurator, WireKazoo)
