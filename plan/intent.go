package plan

import (
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Intent is what a configuration says about one ensemble besides the tree that
// shall be there: what things were called before, what to take over, what to let
// go of, what to limit, which values to publish. It is data, and the only place for
// it: [Diff] asks nobody else. The zero value intends nothing.
type Intent struct {
	Moves     []Move     // by From
	PathMoves []PathMove // by From
	Imports   []Import   // by To
	Removals  []Removal  // by From
	Quotas    []Quota    // by Path
	// Access is who may use the tool's own nodes; nil when it is not declared.
	Access *Access
	// Outputs are the values that the index of this ensemble keeps: all of the
	// configuration's, on its first ensemble.
	Outputs []Output
	// ConfigHash identifies the configuration; it is stored in the index.
	ConfigHash string
	// Elsewhere is what is declared on the other ensembles: an address that matches
	// nothing may be meant for one of theirs. Nothing else is planned from it.
	Elsewhere []*Tree
}

// Access is who may use what the tool makes for itself: the root, .locktree and all in it, and
// the notes that moves leave behind. No identity is in both lists.
type Access struct {
	Admins  []kind.ACL `json:"admins"`            // may apply: all rights
	Readers []kind.ACL `json:"readers,omitempty"` // may plan and look: READ
}

// List is the access list of the nodes that are the stack's alone.
func (a *Access) List() []kind.ACL { return kind.NormalizeACL(slices.Concat(a.Admins, a.Readers)) }

// Move says that what was declared at one address is declared at another one
// now. An address is that of a node, of a block with all its instances
// (mutex.a, which covers mutex.a["k"]), of a namespace with everything in it, or
// of a module.
//
// No two moves of an Intent start at one address or end at one, none starts at
// an address that is still declared, and following them never comes back.
type Move struct {
	From, To Addr
	// One is true when a single instance moves, so that mutex.a means that alone
	// and not mutex.a["k"]: one of the two addresses ends in a key.
	One    bool
	Origin string // "locks.locktree.hcl:12"
}

// PathMove says that the node at one path, and everything below it, continues at
// another one: a node declared at To, or in it. Unlike a [Move] it names what is
// in the ensemble, whoever declared it.
type PathMove struct {
	From, To string // absolute paths
	Origin   string
}

// Import says that a znode that exists already shall become the declared node.
type Import struct {
	To     Addr   // the address of a node in the tree, with its key
	Path   string // the absolute path where the znode stands today
	Target string // the path of the declared node; equal to Path unless it moves there
	Origin string
	// ByCommand: it was asked for once, by "locktree import", and no block declares it.
	ByCommand bool
}

// Removal says that an address and everything in it is not declared any more on
// purpose.
type Removal struct {
	From Addr
	// Destroy says what becomes of the znodes: deleted, or left as they are
	// without this stack's marker.
	Destroy bool
	Origin  string
}

// Quota limits how many znodes a namespace holds, itself and contenders included
// (count in ZooKeeper's quota). Servers enforce it only with enforceQuota set
// (3.7 and later), and at most one stands on each line from the root to a leaf.
type Quota struct {
	Addr     Addr // of the namespace
	Path     string
	MaxNodes int // at least 1
	Origin   string
}

// Verdict is how a check ended, in the words of Terraform's JSON plan.
type Verdict string

// The verdicts.
const (
	CheckPass  Verdict = "pass"
	CheckFail  Verdict = "fail"
	CheckError Verdict = "error" // a condition could not be evaluated
)

// Check is the result of a check block: a doubt that stops nothing.
type Check struct {
	Addr    Addr    `json:"address"` // check.small_pools
	Origin  string  `json:"origin"`
	Verdict Verdict `json:"verdict"`
	// Problems are the messages of the assertions that do not hold.
	Problems []string `json:"problems,omitempty"`
}

// Rename follows moves from an address that was declared once to the one that is
// meant now. It answers the address itself when no move concerns it.
//
// Of several moves that cover an address the longest decides, as the one that names it most
// closely. Behind it the search begins anew: what moved may have moved again, with a module.
func (i Intent) Rename(addr Addr) Addr {
	// Each move is followed once at most, so this ends whatever is in the list.
	for range i.Moves {
		next := addr
		best := -1
		for _, m := range i.Moves {
			rest, ok := addr.Within(m.From)
			if m.One && strings.HasPrefix(string(rest), "[") {
				continue
			}
			if ok && len(m.From) > best {
				next, best = m.To+rest, len(m.From)
			}
		}
		if best < 0 {
			break
		}
		addr = next
	}
	return addr
}

// Removed returns the removal that covers an address, nil when there is none: of
// several the one that says it of the least besides.
func (i Intent) Removed(addr Addr) (best *Removal) {
	for n := range i.Removals {
		r := &i.Removals[n]
		if _, ok := addr.Within(r.From); ok && (best == nil || len(r.From) > len(best.From)) {
			best = r
		}
	}
	return best
}
