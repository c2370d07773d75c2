package kind

// Election is the kind of a leader election, in the names of Curator's
// LeaderLatch. A LeaderSelector or a mutex must not share its node: each
// sorts the other's contenders wrongly.
var Election = &Kind{
	Name: "election",
	Doc:  "A leader election: the first candidate leads, the next one follows when it leaves.",
	Kept: true,
	Queues: []Queue{{
		Admit:     firstHolds,
		Plain:     true, // LeaderLatch.getParticipants shows whatever is there as a candidate's id
		Exclusive: map[Wire]string{WireCurator: "latch-", WireKazoo: "__lock__"},
	}},
	New: func() Params { return applyDefaults(&ElectionParams{}) },
}

// ElectionParams are the parameters of an election.
type ElectionParams struct {
	Common
	// RefuseObservers, "observers = false" in the configuration, keeps programs
	// that do not stand from following who leads. The library obeys it in
	// Observe; read access to the node is a matter of its access list.
	RefuseObservers bool
}

// Kind implements [Params].
func (*ElectionParams) Kind() *Kind { return Election }

// Fields implements [Params].
func (p *ElectionParams) Fields() []Field {
	return append(p.fields(WireCurator, WireKazoo),
		boolField("observers", &p.RefuseObservers, true, "Whether programs that are no candidates may follow who leads.").negated())
}
