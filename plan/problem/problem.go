// Package problem names the problems of a plan.
//
//	plan.Problem{Severity: problem.Error, Code: problem.Protected, Addr: addr, Summary: "Node is protected"}
//
// Package plan/diff finds most of them; plan/diff/access and plan/tx add some. A [Code] is an interface for programs: it is in the
// JSON of a plan, and does not change. The package relies on nothing.
package problem

// Severity says whether a problem prevents an apply.
type Severity string

// The severities.
const (
	Warning Severity = "warning"
	Error   Severity = "error" // the plan must not be applied
)

// Code says what kind of problem it is, for programs.
type Code string

// The codes.
const (
	Foreign       Code = "foreign_node"    // another program's node is at a declared path
	OtherStack    Code = "other_stack"     // another stack's node is there
	Newer         Code = "newer_format"    // ours, written by a newer version
	Damaged       Code = "damaged"         // ours, but its data makes no sense
	Unreadable    Code = "unreadable"      // we may not read it
	MarkerLost    Code = "marker_lost"     // a namespace whose data was replaced by the declaration of a lock
	Protected     Code = "protected"       // deletion of a protected node
	InUse         Code = "in_use"          // deletion of a lock with holders or waiters; a warning
	Shrink        Code = "shrink"          // more permits held than the new parameters admit; a warning
	Unmanaged     Code = "unmanaged_child" // a namespace stays because of its contents; a warning
	Parent        Code = "no_parent"       // a declared node's parent is not declared, or is a lock
	Duplicate     Code = "duplicate_path"  // two addresses declare one path
	Path          Code = "illegal_path"    // outside the root, or not a path
	WorldWritable Code = "world_writable"  // everybody may write, without allow_world
	LockOut       Code = "lock_out"        // we would lose our own rights, without allow_lockout
	Identities    Code = "no_identities"   // Options.Identities is empty
	NoACL         Code = "no_acl"          // a declared node without an access list
	MassDestroy   Code = "mass_destroy"    // too much of a namespace would be deleted, without AllowMassDestroy
	Target        Code = "target"          // a target, replacement or lock to break that matches nothing
	Targeted      Code = "targeted"        // not all of the configuration was planned; a warning
	Import        Code = "import"          // the znode to import does not exist or cannot be taken over
	Container     Code = "container"       // an imported node may be a container; a warning
	Draining      Code = "draining"        // an interrupted apply left a lock draining; a warning
	Index         Code = "index"           // the stack's record is missing or damaged; a warning
	Open          Code = "open_root"       // others may create or delete the stack's nodes; a warning
	Access        Code = "access"          // the lists of the tool's own nodes are not declared, or cannot be as declared
	ForceBreak    Code = "force_break"     // contenders are deleted by force; a warning
	Listing       Code = "too_wide"        // too many nodes for a listing, or for the record; an error or a warning
	Budget        Code = "too_large"       // a change does not fit into a transaction that servers accept
	Outputs       Code = "outputs"         // the outputs are too long to be written by every apply
)
