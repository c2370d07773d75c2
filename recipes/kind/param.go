package kind

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Params are the declared parameters of one node. Each implementation is a plain struct in the file of its kind, with a [Common] in it.
type Params interface {
	// Kind is the recipe type these parameters belong to.
	Kind() *Kind
	// Fields is the parameter table, bound to this value: setting a field changes the receiver.
	Fields() []Field

	common() *Common
}

// Field is one parameter: its declaration together with its value. It points into the parameters it was made for, so a copy of a
// Field sets the same parameter.
type Field struct {
	*parameter
	of Params
}

// parameter is the declaration of a parameter: a row of the kind's table. All nodes of the kind share the table, because a plan
// of 100,000 locks asks a dozen times for the fields of each lock.
//
// A parameter is a string or a number, and nothing richer. It must survive HCL, JSON, a znode and a diff without a conversion that can
// fail.
type parameter struct {
	Name     string
	Doc      string
	Number   bool     // its value is an int; otherwise a string
	Required bool     // the configuration must set it; Default is then nil
	Default  any      // string or int: the value of an absent parameter
	OneOf    []string // the allowed strings, if the set is closed
	Min, Max int      // inclusive bounds of a number
	Replace  bool     // a change cannot be made in place
	Inherit  bool     // a string that a node inherits from its namespace, unless the node sets its own
	Derived  bool     // the configuration computes it: no block sets it

	at      func(Params) any   // returns a *string or *int: where the value is kept
	refused map[string]string  // strings that users will try, and why they are not allowed
	rule    func(string) error // checks strings other than "", which means no value; nil: no rule

	// Cron: the configuration may write the value in any form that cron has; the canonical form is kept ([slots.ScheduleText]).
	Cron bool
	// Zone: the value names a time zone, which the configuration checks. Some machines may lack that zone.
	Zone bool
}

// ParamError says which parameter is wrong, why, and what would be right.
type ParamError struct {
	Name string // the parameter
	Err  error
}

func (e *ParamError) Error() string { return fmt.Sprintf("parameter %q: %v", e.Name, e.Err) }
func (e *ParamError) Unwrap() error { return e.Err }

// bind makes the fields of one node.
func bind(table []parameter, p Params) []Field {
	out := make([]Field, len(table))
	for i := range table {
		out[i] = Field{&table[i], p}
	}
	return out
}

// Get returns the value as string or int; for an empty string the default.
func (f Field) Get() any {
	switch v := f.at(f.of).(type) {
	case *int:
		return *v
	case *string:
		if *v != "" || f.Default == nil {
			return *v
		}
	}
	return f.Default
}

// Set checks a string, int, int64 or float64 (if it is a whole number) against the declaration and stores it. The error is a [*ParamError];
// the value then stays as it was.
func (f Field) Set(v any) error {
	if err := f.check(v); err != nil {
		return &ParamError{Name: f.Name, Err: err}
	}
	switch at := f.at(f.of).(type) { // check has accepted v, so the conversions below succeed
	case *int:
		*at, _ = wholeNumber(v)
	case *string:
		*at = v.(string)
	}
	return nil
}

// check checks a value from outside (Set), or the present one (Validate), against the declaration. So it accepts the types of both.
func (f *parameter) check(v any) error {
	if f.Number {
		n, err := wholeNumber(v)
		if err == nil && (n < f.Min || n > f.Max) {
			err = fmt.Errorf("%d is out of range: it must be between %d and %d", n, f.Min, f.Max)
		}
		return err
	}
	s, ok := v.(string)
	if !ok {
		return errors.New("must be a string")
	}
	if len(f.OneOf) > 0 && !slices.Contains(f.OneOf, s) {
		var quoted []string
		for _, o := range f.Named() {
			quoted = append(quoted, strconv.Quote(o))
		}
		if why, ok := f.refused[s]; ok {
			return fmt.Errorf("%q is not allowed: %s; it must be %s", s, why, strings.Join(quoted, " or "))
		}
		return fmt.Errorf("%q is not allowed: it must be one of %s", s, strings.Join(quoted, ", "))
	}
	if len(s) > maxString && !f.Derived { // a derived string is a path, which may be longer
		return fmt.Errorf("is %d bytes long: at most %d are kept in a znode", len(s), maxString)
	}
	if f.rule != nil && s != "" {
		return f.rule(s)
	}
	return nil
}

// Named are the strings of OneOf that a user writes: the empty string is no value.
func (f *parameter) Named() []string {
	return slices.DeleteFunc(slices.Clone(f.OneOf), func(s string) bool { return s == "" })
}

// maxString keeps a payload at about a kilobyte, which the plan's size estimate assumes because of ZooKeeper's transaction limit of 1 MiB.
const maxString = 512

func wholeNumber(v any) (int, error) {
	switch n := v.(type) {
	case int:
		return n, nil
	case int64:
		return int(n), nil
	case float64:
		// Beyond 2^53 a float64 cannot represent every whole number, so the written number could differ from the declared one.
		if n != math.Trunc(n) || math.Abs(n) > 1<<53 {
			return 0, errors.New("must be a whole number")
		}
		return int(n), nil
	default:
		return 0, errors.New("must be a whole number")
	}
}

// applyDefaults sets each parameter that has a default. Every New calls it, so the table is the only place that knows a default.
func applyDefaults[P Params](p P) P {
	for _, f := range p.Fields() {
		if f.Default != nil {
			if err := f.Set(f.Default); err != nil {
				panic("kind: default of " + p.Kind().Name + " breaks its own rule: " + err.Error())
			}
		}
	}
	return p
}

// Validate checks every parameter against its declaration, and then the rules that involve several parameters. It returns all errors, each
// a [*ParamError], joined; nil when there are none.
func Validate(p Params) error {
	var errs []error
	for _, f := range p.Fields() {
		if err := f.check(f.Get()); err != nil {
			errs = append(errs, &ParamError{Name: f.Name, Err: err})
		}
	}
	if p, several := p.(interface{ check() error }); several && len(errs) == 0 {
		if err := p.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Change is one parameter that differs between two declarations.
type Change struct {
	Name          string
	Before, After any
	Replace       bool // cannot be changed in place
}

// Diff compares two declarations of the same kind, in table order. It panics
// if the kinds differ: that is a replacement of the node, not a change.
func Diff(before, after Params) []Change {
	if before.Kind() != after.Kind() {
		panic("kind: Diff of a " + before.Kind().Name + " and a " + after.Kind().Name)
	}
	if before == after { // the same struct, as for most nodes of a plan
		return nil
	}
	var out []Change
	// The kind is the same, so the tables have the same order. Strings and ints can be compared with ==.
	bs := before.Fields()
	for i, a := range after.Fields() {
		if b, v := bs[i].Get(), a.Get(); b != v {
			out = append(out, Change{Name: a.Name, Before: b, After: v, Replace: a.Replace})
		}
	}
	return out
}

// The wire formats: naming schemes of a lock's contenders. Contenders with names of different schemes do not exclude each other, so all
// clients of a lock must use one wire format.
const (
	// WireCurator writes the names of Apache Curator's recipes. Clients of Curator, go-zookeeper and this library exclude each other.
	WireCurator = "curator"
	// WireKazoo writes the names of Python's kazoo. Stock kazoo clients, go-zookeeper and this library exclude each other; Curator clients
	// do not see these contenders and must not use such a lock.
	WireKazoo = "kazoo"
)

// Common are the parameters that the recipes share. An election has no MaxHold and MaxWait, and a namespace only Description and Limits.
type Common struct {
	// Description is for people; it changes nothing.
	Description string
	Limits
	// MaxWaiters bounds how many contenders may queue behind the holders; 0 means no bound. The library enforces it when it joins a queue;
	// foreign clients ignore it.
	MaxWaiters int
	// Wire is the naming scheme of the contenders: [WireCurator] or [WireKazoo]; "" means [WireCurator].
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

// Place is a lock's place in an order that a namespace declares. Of two locks of one order, a program takes the one with the lower rank
// first.
type Place struct {
	Of   string // the path of the namespace
	Rank int
}

// String writes what Common.Order has: the rank and the path.
func (p Place) String() string { return strconv.Itoa(p.Rank) + " " + p.Of }

// PlaceOf returns the place that the parameters have; nil if they have none.
func PlaceOf(p Params) *Place {
	rank, of, ok := strings.Cut(p.common().Order, " ")
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(rank)
	if err != nil {
		return nil
	}
	return &Place{of, n}
}
