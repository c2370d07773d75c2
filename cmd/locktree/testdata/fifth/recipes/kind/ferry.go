package kind

// Ferry is the kind of a lock that neighbours in the queue hold together.
var Ferry = &Kind{
	Name: "ferry",
	Doc:  "A lock that contenders hold a boat at a time: those of the next one wait until the last of this one has left.",
	Queues: []Queue{{
		Admit:     admitBoat,
		Exclusive: map[string]string{WireCurator: "seat-"},
		Shared:    map[string]string{WireCurator: "deck-"}, // each reader has a node there
	}},
	New: func() Params { return applyDefaults(&FerryParams{Seats: 1}) },
}

func init() { register(Ferry) }

// FerryParams are the parameters of a ferry.
type FerryParams struct {
	Common
	// Seats is how many numbers make a boat.
	Seats int
}

// Kind and Fields implement [Params].
func (*FerryParams) Kind() *Kind       { return Ferry }
func (p *FerryParams) Fields() []Field { return bind(ferryTable, p) }

var ferryTable = append(commonTable(WireCurator),
	parameter{Name: "seats", at: func(p Params) any { return &p.(*FerryParams).Seats }, Number: true, Required: true, Replace: true, Min: 1, Max: 1000,
		Doc: "How many seats a boat has."})

// admitBoat: who has a number of the first one's boat holds, others wait for the last of the boats ahead. Who is admitted
// stays admitted: whoever is first while it holds has a number of its boat.
func admitBoat(p Params, queue []Contender, i int) (admitted bool, behind int) {
	boat := func(c Contender) int32 { return c.Seq / int32(p.(*FerryParams).Seats) }
	last := i
	for last >= 0 && boat(queue[last]) == boat(queue[i]) {
		last--
	}
	return last < 0, last
}
