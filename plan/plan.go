package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Plan is what an apply to one ensemble would do. It is plain data.
//
// Package plan/document makes its JSON, as "locktree show -json" prints it. Do not print a [Tree] or an [Access] as JSON: it has
// digests.
type Plan struct {
	Ensemble string
	Root     string
	Stack    string
	// Servers are those that were asked for the plan; nil if they are not known.
	Servers []string
	Destroy bool // everything of the stack goes, its record included

	// Changes are in the order of execution: deletions first, children before parents; then all others, parents before children.
	// NoOp is included. If a path changes, the deletion at the old one is done with the creation at the new one.
	Changes  []Change
	Problems []Problem // errors first, then by path
	// Access are the access lists of the tool's own nodes that change.
	Access []AccessChange
	// Set is who may use the tool's own nodes after the plan: the set of the root; nil if none is named. Only one of its
	// administrators can apply the plan.
	Set *Access
	// Pins are all nodes that the plan relied on, sorted by path: they must still be as
	// pinned when it is applied.
	Pins []Pin
	// Index is the stack's record as it was read.
	Index Pin
	// Destroys is that of the tree that was read, see [Tree].
	Destroys int32
	// Unread is that of the tree that was read, see [Tree].
	Unread map[string]int
	// Applied is the id of the apply that wrote the record, "" if there was none to read.
	Applied string
	// Drifted are the nodes that are not as the last apply left them, by path. Lock traffic is not drift.
	Drifted []Drift
	// Outputs are the output values, sorted by name.
	Outputs []OutputChange
	// Resumes is the id of an apply that was interrupted before all its access
	// lists were set, "" if there is none. This plan finishes its work.
	Resumes string
	// Transaction is the size of the transactions, all batches together.
	Transaction Stats
	// Batches are the sizes of the single transactions, if one is not enough: each leaves
	// a consistent tree. nil if there is at most one.
	Batches []Stats

	// The following fields were asked for in [Options].

	Targeted bool  // Targets: not all of the configuration was planned
	Drain    int64 // how long the apply waits for locks that it deletes or replaces, in milliseconds; with 0 it does not wait

	// Before is what is known of the stack before the plan, and RootSet whose the root is. Package plan/diff finds both, and the
	// transactions need them.
	Before  record.Before
	RootSet record.RootSet
}

// Pin is the state of a node that a plan relied on.
type Pin struct {
	Path     string `json:"path"`
	Addr     Addr   `json:"address,omitempty"` // "" for nodes that have none
	Absent   bool   `json:"absent,omitempty"`  // it did not exist; the rest is zero
	Czxid    int64  `json:"czxid"`
	Version  int32  `json:"data_version"`
	Aversion int32  `json:"acl_version"`
	// Written: users of the lock write this data, so the plan does not rely on Version.
	Written bool `json:"written,omitempty"`
}

// Stats is the size of the transaction of a plan.
type Stats struct {
	Ops int `json:"ops"` // operations in the multi, without the fencing check
	// Bytes is the size of the request on the wire, without the fencing check. Servers
	// drop the connection above 1,048,575.
	Bytes    int `json:"bytes"`
	ACLPhase int `json:"acl_phase"` // access lists set one by one after the transaction
}

// Output is one output value of a configuration.
type Output struct {
	Name  string          `json:"name,omitempty"`
	Type  json.RawMessage `json:"type,omitempty"`  // of the value, in cty's JSON notation; may be nil
	Value json.RawMessage `json:"value,omitempty"` // nil when Sensitive: such values are stored nowhere
	// Sensitive outputs are known only by name.
	Sensitive bool `json:"sensitive,omitempty"`
	// The field From has the addresses, without instance keys, of the blocks whose nodes a declared value comes from. They are not
	// stored.
	From []Addr `json:"-"`
}

// OutputChange is an output value that is new, changed, gone or the same.
type OutputChange struct {
	Name   string  `json:"name"`
	Action Action  `json:"action"` // NoOp, Create, Update or Delete
	Before *Output `json:"before,omitempty"`
	After  *Output `json:"after,omitempty"`
}

// Counts are the numbers of the summary line. A replacement counts as one addition and
// one deletion, as in Terraform; an import counts also as the addition, change or
// replacement that it causes. A node that gets another path is a replacement.
type Counts struct{ Add, Change, Destroy, Import, Forget int }

// Plus adds up what two plans do.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Add + o.Add, c.Change + o.Change, c.Destroy + o.Destroy, c.Import + o.Import, c.Forget + o.Forget}
}

// Sum is the id of a plan: 16 hexadecimal digits of a hash of all that it does. A plan keeps its sum when it is saved and read.
// The sum leaves out versions and users of locks, so a new plan that does the same has the same sum.
//
// While a stack has no key, a reader of the sum could guess a password: then hashes of passwords are left out, too.
func (p *Plan) Sum() string {
	h := sha256.New()
	add := func(values ...any) { fmt.Fprintf(h, "%#v\n", values) }
	list := func(l kind.List) string {
		if p.Before.Key == "" || p.Before.Fresh {
			return l.String()
		}
		return string(record.SlowSum(p.Before.Key, l))
	}
	add(p.Index.Path, p.Destroy, p.Drain, p.Resumes, p.Before.Lost)
	for c := range p.Each() {
		if c.Action == NoOp && !c.Renamed() && !c.Unsealed {
			continue
		}
		add(c.Action, c.Addr, c.Path, c.NextPath, c.Break, c.MissingParts)
		if c.After != nil && c.After.Payload != nil {
			data, _ := record.Written(c.After.Path, c.After.Payload) // data that cannot be encoded is a problem of the plan, which is not applied
			add(string(data), list(c.After.ACL))
		}
		for _, l := range c.FormerLists {
			add(list(l))
		}
	}
	for _, s := range p.ACLSteps() {
		add(s.Path, list(s.ACL))
	}
	for _, a := range p.Access {
		add(a.Pin.Path, a.Contenders, list(a.After))
	}
	if p.Set != nil {
		add(list(p.Set.List()))
	}
	for _, o := range p.Outputs {
		if add(o.Name, o.Action); o.After != nil && !o.After.Sensitive {
			add(string(o.After.Type), string(o.After.Value))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// MarshalJSON fails: JSON of these fields would leave out changes without an error.
func (p Plan) MarshalJSON() ([]byte, error) {
	return nil, errors.New("plan: document.Of makes the JSON of a plan")
}

// Summary counts what the plan does.
func (p *Plan) Summary() Counts {
	var c Counts
	for one := range p.Each() {
		if one.Importing != "" {
			c.Import++
		}
		switch one.Action {
		case Forget:
			c.Forget++
		case Create:
			c.Add++
		case Update:
			c.Change++
		case Delete:
			c.Destroy++
		case Replace:
			c.Add++
			c.Destroy++
		}
	}
	if len(p.Access) > 0 || p.NotesAccess() { // together they count as one change, of the ensemble block
		c.Change++
	}
	return c
}

// Applyable reports whether the plan has no problem of severity Error. A plan without
// changes is applyable. A lock in use does not matter: it may be idle when the plan is
// applied, and if not, apply refuses; see [Plan.InUse].
func (p *Plan) Applyable() bool {
	return !slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Severity == problem.Error })
}

// Each yields pointers to the changes, in their order.
func (p *Plan) Each() iter.Seq[*Change] {
	return func(yield func(*Change) bool) {
		for i := range p.Changes {
			if !yield(&p.Changes[i]) {
				return
			}
		}
	}
}

// HasChanges reports whether an apply would write anything: nodes, outputs, or a record
// that is missing or damaged. A destroy of nothing may still have a record to
// delete. A change of only the address counts, although Summary does not count it: the
// mark contains the address.
func (p *Plan) HasChanges() bool {
	return p.Summary() != Counts{} || slices.ContainsFunc(p.Outputs, func(o OutputChange) bool { return o.Action != NoOp }) ||
		p.DropsIndex() && !p.Index.Absent || slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Renamed() }) || p.Before.Lost || p.Seals()
}

// InUse returns the changes that need an idle lock (see [Change.NeedsIdle]), but whose lock was in use when the plan was made. An
// apply now would be refused, unless it drains or breaks these locks.
func (p *Plan) InUse() []*Change {
	var out []*Change
	for c := range p.Each() {
		if c.NeedsIdle() && c.Usage.Busy() {
			out = append(out, c)
		}
	}
	return out
}

// String writes one line for every problem and every change but NoOp, for logs
// and tests. People are shown more by the command.
func (p *Plan) String() string {
	var b strings.Builder
	for _, q := range p.Problems {
		fmt.Fprintf(&b, "%s: %s: %s\n", q.Severity, q.Summary, q.Path)
	}
	for c := range p.Each() {
		if c.Action != NoOp {
			b.WriteString(c.String() + "\n")
		}
	}
	for _, c := range p.Access {
		fmt.Fprintf(&b, "~ %s %s acl=%s\n", c.Addr, c.Pin.Path, c.ACLDiff)
	}
	return b.String()
}

// DropsIndex reports whether no record is left: everything is destroyed, nothing had to
// stay, and there is no output to keep. The record may also have been lost already.
func (p *Plan) DropsIndex() bool {
	return p.Destroy && len(p.Before.Untracked) == 0 && !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.staysOwned() }) &&
		!slices.ContainsFunc(p.Outputs, func(o OutputChange) bool { return o.After != nil })
}

// Seals reports whether an apply gives sums to nodes that have none, or none of the stack's key.
func (p *Plan) Seals() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Unsealed && !record.Sealed(p.Before.Key, c.Before.Payload) })
}

// Shown are the changes as a person reads them, in their order: the two ends of a path that changes are one replacement.
func (p *Plan) Shown() []*Change {
	at := map[string]*Change{}
	for c := range p.Each() {
		if c.PreviousPath != "" || c.NextPath != "" {
			at[c.Path] = c
		}
	}
	out := make([]*Change, 0, len(p.Changes))
	for c := range p.Each() {
		from, to := at[c.PreviousPath], at[c.NextPath]
		comes, goes := from != nil && from.NextPath == c.Path, to != nil && to.PreviousPath == c.Path
		switch {
		case comes:
			out = append(out, c.joinMove(from))
			if c.Action == Replace && !goes { // the former lock at c.Path is not declared any more: show its deletion, too
				out = append(out, &Change{Action: Delete, Addr: c.Before.Owned(), Path: c.Path, Kind: c.Before.Kind(), Before: c.Before,
					Reason: c.Leaves, Missing: c.Missing, Usage: c.Usage, Drift: c.Drift, Break: c.Break})
			}
		case goes && c.Action == Replace: // the replacement at the new path already shows the node that leaves
			out = append(out, &Change{Action: Create, Addr: c.Addr, Path: c.Path, Kind: c.Kind, After: c.After})
		case !goes:
			out = append(out, c)
		}
	}
	return out
}

// NotesAccess reports whether the record lacks the set that the stack names.
func (p *Plan) NotesAccess() bool {
	return p.RootSet.Named() && !p.RootSet.Limited && !p.Index.Absent && !p.Set.List().Equal(p.Before.Noted)
}

// AccessChange is an access list of one of the tool's own nodes that changes.
type AccessChange struct {
	Addr Addr `json:"address"` // "ensemble.main"; the own address of a node that the stack has left behind
	ACLDiff
	// Contenders: it is the list for the contenders of the apply lock, which is in that lock's data.
	Contenders bool `json:"contenders,omitempty"`
	Pin        Pin  `json:"pin"` // of the node, as it was read
}

// EnsembleAddr is the address for changes that belong to no declared node.
func EnsembleAddr(ensemble string) Addr { return Addr("ensemble." + ensemble) }

// ACLStep is one access list to set after the transaction.
type ACLStep struct {
	Addr     Addr
	Path     string
	Before   kind.List
	ACL      kind.List
	Aversion int32 // the version of the access list that the plan saw
	Czxid    int64 // of a declared node that the plan saw; otherwise 0
	OfKey    bool  // the node of a family's key, which is deleted after its last user
}

// ACLSteps returns the access lists to set on existing nodes after the transaction, children before parents. The rights needed do
// not depend on the order, since setting a list needs ADMIN on the node itself. Because children come first, each
// of the two passes reaches a namespace only after everything in it. The contents of .locktree come last, and then .locktree
// itself, whose list is the set of the root.
func (p *Plan) ACLSteps() []ACLStep {
	var steps []ACLStep
	for c := range p.Each() {
		if c.Action != Update || c.ACL == nil || c.Before.Live == nil {
			continue
		}
		if !c.Before.ACL.Equal(c.After.ACL) {
			steps = append(steps, ACLStep{Addr: c.Addr, Path: c.Path, Before: c.Before.ACL, ACL: c.After.ACL, Aversion: c.Before.Live.Aversion, Czxid: c.Before.Live.Czxid})
		}
		for _, part := range c.Before.Live.Parts {
			if list := c.Kind.PartACL(part.Name, c.After.ACL); !part.Absent && !part.ACL.Equal(list) {
				steps = append(steps, ACLStep{Addr: c.Addr, Path: kind.JoinPath(c.Path, part.Name), Before: part.ACL, ACL: list, Aversion: part.Aversion})
			}
		}
	}
	for _, c := range p.Access {
		if !c.Contenders {
			steps = append(steps, ACLStep{Addr: c.Addr, Path: c.Pin.Path, Before: c.Before, ACL: c.After, Aversion: c.Pin.Aversion})
		}
	}
	slices.SortFunc(steps, func(a, b ACLStep) int { return cmp.Compare(b.Path, a.Path) })
	own := func(s ACLStep) bool { return kind.Below(s.Path, record.ScaffoldPath(p.Root)) }
	rest := slices.DeleteFunc(slices.Clone(steps), own)
	return append(rest, slices.DeleteFunc(steps, func(s ACLStep) bool { return !own(s) })...)
}

// Problem is something the author of the configuration has to know before this
// plan is applied.
type Problem struct {
	Severity problem.Severity `json:"severity"`
	Code     problem.Code     `json:"code"`
	Addr     Addr             `json:"address"`
	Path     string           `json:"path"`
	Origin   string           `json:"origin,omitempty"` // where it is declared, "" if it is not
	Summary  string           `json:"summary"`          // one line, no full stop
	Detail   string           `json:"detail"`           // what, why and what to do next
}

// foldAbove is how many problems that say the same are still listed one by one.
const foldAbove = 3

// Fold groups problems that say the same of different nodes, if there are more than
// three of them: the same sentence a thousand times would hide all others. Each group has at least
// one member, and the groups are in the order of their first members.
func Fold(problems []Problem) [][]Problem {
	key := func(p Problem) Problem {
		for _, of := range []string{string(p.Addr), p.Path} {
			if of != "" {
				p.Detail = strings.ReplaceAll(p.Detail, of, "\x00")
			}
		}
		p.Addr, p.Path, p.Origin = "", "", ""
		return p
	}
	same := map[Problem]int{}
	for _, p := range problems {
		same[key(p)]++
	}
	var out [][]Problem
	at := map[Problem]int{} // the number of the group, from 1
	for _, p := range problems {
		k := key(p)
		switch i := at[k]; {
		case same[k] <= foldAbove:
			out = append(out, []Problem{p})
		case i == 0:
			out = append(out, []Problem{p})
			at[k] = len(out)
		default:
			out[i-1] = append(out[i-1], p)
		}
	}
	return out
}
