package plan

import "time"

// Options are what a person asks of one run of [Diff]. What is declared is only in the
// desired tree: the nodes, and the rest (moves, imports, removals, outputs) in
// its Intent.
type Options struct {
	// Destroy plans the deletion of everything the stack owns. The desired tree
	// still says what is protected.
	Destroy bool
	// Identities are our identities on the servers. None is an error: even a client without credentials is world:anyone.
	Identities []Identity
	// Elsewhere is what the stack has on its other ensembles: an address that is no
	// longer declared may match there. It is used for nothing else.
	Elsewhere []*Tree

	// Targets limit the plan to these addresses and to what they need: the namespaces
	// around what is created, the contents of what is deleted. An address covers the
	// instances and contents of what it names. An output is planned if it comes from some
	// node, and all of those are planned. Outputs that are left out, or no longer declared,
	// stay as they were stored.
	Targets []string
	// Replace are addresses of locks to delete and create again, or of what they are in.
	Replace []string
	// AllowMassDestroy lets a plan delete more than 30 % of a namespace's nodes
	// (at least five), which is otherwise a [ProblemMassDestroy]. Destroy implies it.
	AllowMassDestroy bool
	// Drain is how long an apply waits until locks that are to be deleted are idle,
	// after telling the library to grant nothing new there; 0 does not drain.
	Drain time.Duration
	// ForceBreak are exact addresses of locks whose contenders are deleted with
	// them. Each program that holds one learns that it has lost it, but only after the
	// fact: in between, two programs may believe that they hold it.
	ForceBreak []string
	// OverwriteData lets an import replace data that another program wrote.
	OverwriteData bool
}
