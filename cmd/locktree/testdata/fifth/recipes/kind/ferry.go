package kind

// Ferry is the kind of a lock that neighbours in the queue hold together, a boat of them at a time.
var Ferry = &Kind{
	Name: "ferry",
	Doc:  "A lock that all contenders of one boat hold together. The next boat waits until the last contender of this boat has left.",
	Queues: []Queue{{
		Admit:     admitBoat,
		Exclusive: map[string]string{WireCurator: "seat-"},
		Shared:    map[string]string{WireCurator: "deck-"}, // a reader has its node there
	}},
	New: func() Params { return applyDefaults(&FerryParams{Seats: 1}) },
}

func init() { register(Ferry) }

// FerryParams are the parameters of a ferry.
type FerryParams struct {
	Common
	// Seats is the number of consecutive contenders that make a boat.
	Seats int
}

// Kind and Fields implement [Params].
func (*FerryParams) Kind() *Kind       { return Ferry }
func (p *FerryParams) Fields() []Field { return bind(ferryTable, p) }

var ferryTable = append(commonTable(WireCurator),
	parameter{Name: "seats", at: func(p Params) any { return &p.(*FerryParams).Seats }, Number: true, Required: true, Replace: true, Min: 1, Max: 1000,
		Doc: "How many seats a boat has."})

// admitBoat admits every contender of the first contender's boat. All others wait for the last contender of the boats
// ahead. An admitted contender stays admitted: while it holds, the first in the queue is always of its boat.
func admitBoat(p Params, queue []Contender, i int) (admitted bool, behind int) {
	boat := func(c Contender) int32 { return c.Seq / int32(p.(*FerryParams).Seats) }
	last := i
	for last >= 0 && boat(queue[last]) == boat(queue[i]) {
		last--
	}
	return last < 0, last
}
