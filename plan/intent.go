package plan

import (
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// Intent is what a configuration says about one ensemble besides the desired nodes:
// former names, what to take over, what to forget or delete, which values to
// publish. Package plan/diff takes these facts only from here. The zero value intends nothing.
type Intent struct {
	Moves    []Move    // by From
	Imports  []Import  // by To
	Removals []Removal // by From
	// Access is who may use the tool's own nodes; nil when it is not declared.
	Access *Access
	// Outputs are the values that the record of this ensemble keeps: all of the
	// configuration's, on its first ensemble.
	Outputs []Output
	// Elsewhere is what is declared on the other ensembles: an address that matches nothing here may match there. The reason of a
	// deletion needs it, too.
	Elsewhere []*Tree
	// Nodeless are addresses that are declared and need not have a node: modules, with false; blocks whose for_each has no element,
	// with true. The reason of a deletion needs them.
	Nodeless map[Addr]bool
}

// Move says that what was declared at one address is now declared at another. An
// address is that of a node, of a block with all its instances (mutex.a, which covers
// mutex.a["k"]), of a namespace with everything in it, or of a module.
//
// No two moves of an Intent start or end at the same address, none starts at an
// address that is still declared, and there are no cycles.
type Move struct {
	From, To Addr
	// The field One is true when one of the two addresses ends in a key. Then a single instance moves, and mutex.a does not cover
	// mutex.a["k"].
	One    bool
	Origin string // "locks.locktree.hcl:12"
}

// Import says that an existing znode becomes the declared node.
type Import struct {
	To     Addr   // the address of a node in the tree, with its key
	Path   string // the znode's absolute path, which is the declared one
	Origin string
	// ByCommand: "locktree import" asked for the import, and no block declares it.
	ByCommand bool
}

// Removal says that an address and everything in it is intentionally no longer declared.
type Removal struct {
	From Addr
	// Destroy: the znodes are deleted. Otherwise they stay, without this stack's marker.
	Destroy bool
	Origin  string
}

// Verdict is the result of a check, in the words of Terraform's JSON plan.
type Verdict string

// The verdicts.
const (
	CheckPass  Verdict = "pass"
	CheckFail  Verdict = "fail"
	CheckError Verdict = "error" // a condition could not be evaluated
)

// Check is the result of a check block, which stops nothing.
type Check struct {
	Addr    Addr    `json:"address"` // check.small_pools
	Origin  string  `json:"origin"`
	Verdict Verdict `json:"verdict"`
	// Problems are the messages of the assertions that do not hold.
	Problems []string `json:"problems,omitempty"`
}

// Rename follows moves from a former address to the present one. It returns the address
// itself if no move concerns it.
//
// If several moves cover an address, the longest decides, because it is the most specific. After it
// the search starts again: what moved may have moved again, with a module.
func (i Intent) Rename(addr Addr) Addr {
	// The loop is bounded by the number of moves, so it ends whatever the list contains.
	for range i.Moves {
		next := addr
		best := -1
		for _, m := range i.Moves {
			rest, ok := addr.within(m.From)
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

// Removed returns the most specific removal that covers an address, nil if there is none.
func (i Intent) Removed(addr Addr) (best *Removal) {
	for n := range i.Removals {
		r := &i.Removals[n]
		if _, ok := addr.within(r.From); ok && (best == nil || len(r.From) > len(best.From)) {
			best = r
		}
	}
	return best
}

// Options are what a person asks of one run of package plan/diff. The desired tree has all declarations: the nodes, and the rest
// (moves, imports, removals, outputs) in its Intent.
type Options struct {
	// Destroy plans the deletion of everything the stack owns. The desired tree
	// still says what is protected.
	Destroy bool
	// Identities are our identities on the servers, as in recipes.Client.Identities: without rights. An empty list is an error:
	// even a client without credentials is world:anyone.
	Identities kind.List
	// Elsewhere is what the stack has on its other ensembles: an address that is no longer declared may match there. It has no
	// other use.
	Elsewhere []*Tree

	// Targets limit the plan to these addresses and their needs: the namespaces around new nodes, the contents of deleted ones. An
	// address covers its instances and contents. An output is planned if it depends on nodes, and all of these are planned. Outputs
	// that are left out, or no longer declared, stay as they were stored.
	Targets []string
	// Replace are addresses of locks to delete and create again, or of blocks around them.
	Replace []string
	// AllowMassDestroy lets a plan delete more than 30 % of a namespace's nodes
	// (at least five), which is otherwise a [problem.MassDestroy]. Destroy implies it.
	AllowMassDestroy bool
	// Drain is how long an apply waits until locks that it deletes or replaces are idle. While it waits, they grant nothing new. 0
	// does not drain.
	Drain time.Duration
	// ForceBreak are exact addresses of locks whose contenders are deleted with
	// them. Each program that holds one learns that it has lost it, but only after the
	// fact: in between, two programs may believe that they hold it.
	ForceBreak []string
	// OverwriteData lets an import replace data that another program wrote.
	OverwriteData bool
}
