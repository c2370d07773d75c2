package kind

import "slices"

// The kinds in the order of the help texts.
var (
	kinds []*Kind
	_     = register(Namespace, Mutex, RWLock, Semaphore, Election, Keyed)
)

// register makes kinds known. A further kind calls it in an init of its own file, which runs after the line above.
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
