package plan

import (
	"cmp"
	"slices"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Standing is what a stack has to do with the set of its root.
type Standing string

// The standings.
const (
	StandsOpen     Standing = "open"     // nobody names one: it belongs to whoever applies first
	StandsInForce  Standing = "in force" // what is named is there, or comes with the first apply
	StandsReplaces Standing = "replaces" // what is named takes the place of what is there
)

// RootSet is the set of a root, seen from one stack.
type RootSet struct {
	Standing Standing
	There    kind.List // nil if there is none yet, or we may not read it
	Limited  bool      // the plan leaves the lists of the tool's nodes as they are
}

// Named reports whether the set is after the plan what the stack names.
func (s RootSet) Named() bool {
	return s.Standing == StandsInForce || s.Standing == StandsReplaces && !s.Limited
}

// AccessOf is who a set is.
func AccessOf(list kind.List) *Access {
	admins := slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin == 0 })
	readers := slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin != 0 })
	return &Access{Admins: admins, Readers: readers}
}

// NotesAccess reports whether the record does not have the set yet that the stack names.
func (p *Plan) NotesAccess() bool {
	return p.RootSet.Named() && !p.RootSet.Limited && !p.Index.Absent && !p.Set.List().Equal(p.Before.Noted)
}

// SetDeclared is where administrators are from that a stack names itself.
const SetDeclared = "declared in the ensemble block"

// SetOf says where those of Set are from.
func (p *Plan) SetOf() string {
	if p.RootSet.Named() {
		return SetDeclared
	}
	return "of " + p.Root
}

// AccessChange is an access list of one of the tool's own nodes that changes.
type AccessChange struct {
	Addr Addr `json:"address"` // "ensemble.main"; the own address of a node that the stack has left behind
	ACLDiff
	// Contenders: it is the list for the contenders of the apply lock, which is in that lock's data.
	Contenders bool `json:"contenders,omitempty"`
	Pin        Pin  `json:"pin"` // of the node, as it was read
}

// EnsembleAddr is the address for what belongs to no declared node.
func EnsembleAddr(ensemble string) Addr { return Addr("ensemble." + ensemble) }

// ACLStep is one access list to set after the transaction.
type ACLStep struct {
	Addr     Addr
	Path     string
	Before   kind.List
	ACL      kind.List
	Aversion int32 // the version of the access list that the plan saw
	Czxid    int64 // of a declared node that the plan saw; else 0
	OfKey    bool  // of a family: it goes with its last user
}

// ACLSteps returns the access lists to set on existing nodes after the transaction,
// children before parents. The order does not matter for the rights needed, since setting
// a list needs ADMIN on the node itself. It makes a namespace open or close last, when
// everything in it is as declared. What is in .locktree comes last, and then .locktree itself, whose list is the set of the root.
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
