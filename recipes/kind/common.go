package kind

import (
	"strconv"
	"strings"
)

// The wire formats: naming schemes of a lock's contenders. Contenders with names of different schemes do not exclude each other, so all
// clients of a lock must use one wire format.
const (
	// WireCurator writes the names of Apache Curator's recipes. Clients of Curator, go-zookeeper and this library exclude each other.
	WireCurator = "curator"
	// WireKazoo writes the names of Python's kazoo. Stock kazoo clients, go-zookeeper and this library exclude each other; Curator clients
	// do not see these contenders and must not use such a lock.
	WireKazoo = "kazoo"
)

// Common are the parameters that every recipe has. A namespace has its description and its limits alone.
type Common struct {
	// Description is for people; it changes nothing.
	Description string
	Limits
	// MaxWaiters bounds how many contenders may queue behind the holders; 0 means no bound. The library enforces it when it joins a queue;
	// foreign clients ignore it.
	MaxWaiters int
	// Wire is the naming scheme of the contenders: [WireCurator], which is also meant by "", or [WireKazoo].
	Wire string
	// Order is the place of the lock in the order that its namespace declares: see [Place]. "" means none.
	Order string
}

func (c *Common) common() *Common { return c }

// commonTable is the table of the common parameters. wires are the wire formats for which the kind has names.
func commonTable(wires ...string) []parameter {
	return append([]parameter{
		{Name: "description", at: func(p Params) any { return &p.common().Description }, Default: "", Doc: "What the lock is for, for people who read the plan."},
		{Name: "max_waiters", at: func(p Params) any { return &p.common().MaxWaiters }, Number: true, Default: 0, Max: 1_000_000,
			Doc: "How many contenders may wait; 0 means no limit. Enforced by this library only."},
		// Contenders of two naming schemes in one queue do not see each other, so the scheme can only change while the queue is empty.
		{Name: "wire", at: func(p Params) any { return &p.common().Wire }, Default: WireCurator, OneOf: wires, Replace: true,
			Doc: "Naming scheme of the contenders: curator (Java) or kazoo (Python)."},
		{Name: "order", at: func(p Params) any { return &p.common().Order }, Default: "", Derived: true, Doc: "The place of the lock in the order of a namespace."},
	}, limitsTable...)
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
	rank, of, ok := strings.Cut(p.common().Order, " ")
	n, err := strconv.Atoi(rank)
	return Place{of, n}, ok && err == nil
}
