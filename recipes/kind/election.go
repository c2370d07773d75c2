package kind

import "slices"

// Election is the kind of a leader election, with the names of Curator's LeaderLatch. A LeaderSelector or a mutex must not share its node:
// each would sort the other's contenders wrongly.
var Election = &Kind{
	Name: "election",
	Doc:  "A leader election: the first candidate leads, the next one follows when it leaves.",
	Kept: true,
	Queues: []Queue{{
		Admit:     firstHolds,
		Plain:     true, // LeaderLatch.getParticipants shows the whole data as the candidate's id
		Exclusive: map[string]string{WireCurator: "latch-", WireKazoo: "__lock__"},
	}},
	New: func() Params { return applyDefaults(&ElectionParams{}) },
}

// ElectionParams are the parameters of an election.
type ElectionParams struct{ Common }

// Kind and Fields implement [Params].
func (*ElectionParams) Kind() *Kind       { return Election }
func (p *ElectionParams) Fields() []Field { return bind(electionTable, p) }

// Leading and waiting have no limits: a leader should lead for as long as it can.
var electionTable = slices.DeleteFunc(commonTable(WireCurator, WireKazoo), func(f parameter) bool { return f.Name == "max_hold" || f.Name == "max_wait" })
