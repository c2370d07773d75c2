package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Plan is what an apply to one ensemble would do. It is plain data.
//
// Its JSON is the document of "locktree show -json", and complete; the hashes of digests are left out. That of the other types
// leaves out access lists.
type Plan struct {
	Ensemble string
	Root     string
	Stack    string
	// Servers are those on which the plan was made. nil if they are not known.
	Servers []string
	Destroy bool // everything of the stack goes, its record included

	// Changes are in the order of execution: deletions first, children before parents;
	// then all others, parents before children. NoOp is included. If a path changes, the deletion at the old one is done with the creation
	// at the new one.
	Changes  []Change
	Problems []Problem // errors first, then by path
	// Access are the access lists of the tool's own nodes that change.
	Access []AccessChange
	// Set is who may use the tool's own nodes after the plan: the set of the root. nil if nobody names one. Only one of its
	// administrators can apply the plan.
	Set *Access
	// Pins are all nodes that the plan relied on, sorted by path: they must still be as
	// pinned when it is applied.
	Pins []Pin
	// Index is the stack's record as it was read.
	Index Pin
	// Destroys is how often the stack had been destroyed, see [Tree].
	Destroys int32
	// Unread is that of the tree that was read, see [Tree].
	Unread map[string]int
	// Applied is the id of the apply that wrote the record, "" if there was none to read.
	Applied string
	// Drifted are the nodes that differ from what the last apply left, by path. Lock
	// traffic is not drift.
	Drifted []Drift
	// Outputs are the output values, sorted by name.
	Outputs []OutputChange
	// Resumes is the id of an apply that was interrupted before all its access
	// lists were set, "" if there is none. This plan finishes its work.
	Resumes string
	// Transaction is the size of what will be sent, all batches together.
	Transaction Stats
	// Batches are the sizes of the single transactions, if one is not enough: each leaves
	// a consistent tree. nil if there is at most one.
	Batches []Stats

	// What follows was asked for in [Options].

	Targeted bool  // Targets: not all of the configuration was planned
	Drain    int64 // how long the apply waits for locks it deletes, in milliseconds; 0 does not

	prior prior
	set   rootSet
}

// prior is what the transactions need of the record that was read.
type prior struct {
	Key       string                     // of the sums, "" if the stack has none yet
	Fresh     bool                       // the key is that of this apply
	Noted     kind.List                  // the set of the root, by the record
	Next      kind.List                  // the one that was to take its place
	Named     kind.List                  // the administrators that the stack names
	Insiders  kind.List                  // see sides.insiders
	Leaving   kind.List                  // see sides.leaving
	Lost      bool                       // the record is damaged, or gone although there are nodes of the stack
	Unmarked  bool                       // see Plan.Unmarked
	Untracked []string                   // what the record names and cannot be understood, to be kept
	Left      record.Roll                // the nodes that are there before the plan, and those that are missing
	Extra     map[string]json.RawMessage // unknown fields of the record, to be kept
}

// Pin is the state of a node on which a plan relied.
type Pin struct {
	Path     string `json:"path"`
	Addr     Addr   `json:"address,omitempty"` // "" for nodes that have none
	Absent   bool   `json:"absent,omitempty"`  // it did not exist; the rest is zero
	Czxid    int64  `json:"czxid"`
	Version  int32  `json:"data_version"`
	Aversion int32  `json:"acl_version"`
	// Written: users of a lock write its data, so that Version is none that was relied on.
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
	// From are the addresses of the blocks, without instance keys, from whose nodes a declared
	// value comes. They are not stored.
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

// Sum is the id of a plan: 16 hexadecimal digits of a hash of all that it does. A saved plan has the sum of the one that was saved. It
// leaves out versions and users of locks, so a plan that is made again, and does the same, has the same.
//
// While a stack has no key, nobody may guess a password by the sum: then hashes of passwords are left out, too.
func (p *Plan) Sum() string {
	h := sha256.New()
	add := func(values ...any) { fmt.Fprintf(h, "%#v\n", values) }
	list := func(l kind.List) string {
		if p.prior.Key == "" || p.prior.Fresh {
			return l.String()
		}
		return string(record.SlowSum(p.prior.Key, l))
	}
	add(p.Index.Path, p.Destroy, p.Drain, p.Resumes, p.MendsIndex())
	for c := range p.Each() {
		if c.Action == NoOp && !c.renamed() && !c.Unsealed {
			continue
		}
		add(c.Action, c.Addr, c.Path, c.NextPath, c.Break, c.MissingParts)
		if c.After != nil && c.After.Payload != nil {
			data, _ := record.Written(c.After.Path, c.After.Payload) // what cannot be encoded is a problem of the plan, which is not applied
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
	return !slices.ContainsFunc(p.Problems, func(q Problem) bool { return q.Severity == Error })
}

// Each goes through the changes in place, in their order.
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
		p.dropsIndex() && !p.Index.Absent || slices.ContainsFunc(p.Changes, func(c Change) bool { return c.renamed() }) || p.MendsIndex() || p.Seals()
}

// InUse returns the changes that need an idle lock (see [Change.NeedsIdle]) which was in
// use when the plan was made: an apply now would be refused, unless it drains or breaks
// these locks.
func (p *Plan) InUse() []*Change {
	var out []*Change
	for c := range p.Each() {
		if c.NeedsIdle() && c.Usage.Busy() {
			out = append(out, c)
		}
	}
	return out
}
