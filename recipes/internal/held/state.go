package held

import "slices"

// holdState is what a holding is: its life is a walk through the table of moves, and to is the only step. What else is known of it
// (leases, a revocation, writes that may still be applied) says who may use it, and never whether it is held.
type holdState int

const (
	starting   holdState = iota // hold is not through: what ends it now is left to hold
	held                        // it has leases
	exchanging                  // its node is about to be another's, by our own hand: see RWMutex.Downgrade
	over                        // for good; why says why
)

// String completes the sentence "the holding is ...".
func (s holdState) String() string {
	return [...]string{"starting", "held", "being exchanged", "over"}[s]
}

// moves are the legal ones. A place that is handed on stays held.
var moves = map[holdState][]holdState{
	starting:   {held, over},
	held:       {exchanging, over},
	exchanging: {held, over}, // held again only if the exchange cannot be executed any more
}

// to moves the holding, and reports whether that was legal; else nothing has changed.
func (s *holdState) to(next holdState) bool {
	legal := slices.Contains(moves[*s], next)
	if legal {
		*s = next
	}
	return legal
}

// watched reports whether what happens to the nodes is somebody else's doing, and ends the holding.
func (s holdState) watched() bool { return s != exchanging && s != over }
