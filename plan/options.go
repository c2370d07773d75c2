package plan

// Options are what a person asks of one run of [Diff]. What is declared is in the
// desired tree alone: the nodes, and the rest (moves, imports, removals, quotas,
// outputs) in its Intent.
type Options struct {
	// Destroy plans the deletion of everything the stack owns. The desired tree
	// still says what is protected.
	Destroy bool
	// Identities are who we are to the servers. Empty: the lock-out check is left
	// out (nobody is connected).
	Identities []Identity
	// Elsewhere is what the stack has on its other ensembles, which somebody may mean
	// with an address that is not declared any more. Nothing else is planned from it.
	Elsewhere []*Tree

	// Targets limit the plan to the addresses they match and to what these need:
	// the namespaces around what is created, the contents of what is deleted.
	// Excludes leave out what they match and what needs it: the contents of a
	// namespace that is not created, the namespaces around what is not deleted.
	// Both are address globs: "*" is anything within one name, "**" anything, and a
	// pattern covers the instances and contents of what it matches. An output is planned
	// when everything it comes from is, with Targets only if it comes from anything: those
	// that are left out, and those that are not declared any more, stay as they were stored.
	Targets, Excludes []string
	// Replace are address globs of locks to delete and create again.
	Replace []string
	// RefreshOnly plans no write to any node: changes are left out, drift is told,
	// and an apply writes the index as it then stands. With Targets or Excludes both
	// are about what they select alone: the index keeps saying what it says of the rest.
	RefreshOnly bool
	// AllowMassDestroy lets a plan delete more than 30 % of a namespace's nodes
	// (five at least), which is a [ProblemMassDestroy] otherwise. Destroy implies it.
	AllowMassDestroy bool
	// Drain is how long an apply waits for locks that are to be deleted to become
	// idle, after telling the library to grant nothing new there; a [time.Duration].
	// nil and 0 do not drain. A lock that is taken over from other programs is waited
	// for, too, but stays open to them.
	Drain Span
	// ForceBreak are exact addresses of locks whose contenders are deleted with
	// them. Each program that holds one learns that it lost it, but only after the
	// fact: for the moment in between two programs may believe that they hold.
	ForceBreak []string
	// OverwriteData lets an import replace data that some other program wrote.
	OverwriteData bool
}

// Span is a length of time. Every time.Duration is one; this package stays away
// from the package that has the clock.
type Span interface{ Milliseconds() int64 }

// drainMs is the span in milliseconds, 0 for none.
func (o Options) drainMs() int64 {
	if o.Drain == nil {
		return 0
	}
	return o.Drain.Milliseconds()
}
