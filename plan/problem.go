package plan

import "strings"

// Severity says whether a problem prevents an apply.
type Severity string

// The severities.
const (
	Warning Severity = "warning"
	Error   Severity = "error" // the plan must not be applied
)

// ProblemCode says what kind of problem it is, for programs.
type ProblemCode string

// The problems.
const (
	ProblemForeign       ProblemCode = "foreign_node"    // somebody else's node is at a declared path
	ProblemOtherStack    ProblemCode = "other_stack"     // another stack's node is there
	ProblemNewer         ProblemCode = "newer_format"    // ours, written by a newer version
	ProblemDamaged       ProblemCode = "damaged"         // ours, but its data makes no sense
	ProblemUnreadable    ProblemCode = "unreadable"      // we may not read it
	ProblemMarkerLost    ProblemCode = "marker_lost"     // a namespace of ours whose mark says something else
	ProblemProtected     ProblemCode = "protected"       // deletion of a protected node
	ProblemInUse         ProblemCode = "in_use"          // deletion of a lock with holders or waiters; a warning
	ProblemShrink        ProblemCode = "shrink"          // more permits held than the new parameters admit; a warning
	ProblemUnmanaged     ProblemCode = "unmanaged_child" // a namespace stays because of what is in it; a warning
	ProblemParent        ProblemCode = "no_parent"       // a declared node's parent is not declared, or is a lock
	ProblemDuplicate     ProblemCode = "duplicate_path"  // two addresses declare one path
	ProblemPath          ProblemCode = "illegal_path"    // outside the root, or not a path
	ProblemWorldWritable ProblemCode = "world_writable"  // everybody may write, without allow_world
	ProblemLockOut       ProblemCode = "lock_out"        // we would lose our own rights, without allow_lockout
	ProblemIdentities    ProblemCode = "no_identities"   // Options.Identities is empty
	ProblemNoACL         ProblemCode = "no_acl"          // a declared node without an access list
	ProblemMassDestroy   ProblemCode = "mass_destroy"    // too much of a namespace would be deleted, without AllowMassDestroy
	ProblemTarget        ProblemCode = "target"          // a target, replacement or lock to break that matches nothing
	ProblemTargeted      ProblemCode = "targeted"        // not all of the configuration was planned; a warning
	ProblemImport        ProblemCode = "import"          // the znode to import does not exist or cannot be taken over
	ProblemContainer     ProblemCode = "container"       // an imported node may be a container; a warning
	ProblemDraining      ProblemCode = "draining"        // an interrupted apply left a lock closed; a warning
	ProblemIndex         ProblemCode = "index"           // the stack's record is missing or damaged; a warning
	ProblemOpen          ProblemCode = "open_root"       // others may create or delete the stack's nodes; a warning
	ProblemAccess        ProblemCode = "access"          // the lists of the tool's own nodes are not declared, or cannot be as declared
	ProblemForceBreak    ProblemCode = "force_break"     // contenders are deleted by force; a warning
	ProblemListing       ProblemCode = "too_wide"        // a namespace would be too long to be listed
	ProblemBudget        ProblemCode = "too_large"       // a change does not fit into a transaction that servers accept
	ProblemOutputs       ProblemCode = "outputs"         // the outputs are too long to be written by every apply
)

// Problem is something the author of the configuration has to know before this
// plan is applied.
type Problem struct {
	Severity Severity    `json:"severity"`
	Code     ProblemCode `json:"code"`
	Addr     Addr        `json:"address"`
	Path     string      `json:"path"`
	Origin   string      `json:"origin,omitempty"` // where it is declared, "" if it is not
	Summary  string      `json:"summary"`          // one line, no full stop
	Detail   string      `json:"detail"`           // what, why and what to do next
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
	at := map[Problem]int{} // of the group, from 1
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
