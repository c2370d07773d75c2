// Package view shows what the commands found out: as text for people or as JSON
// for programs. It decides nothing. Everything it shows is a field of a plan, an
// event, a diagnostic or one of the small structs of this file, so that the JSON
// view is complete and a text can be tested without a command.
//
// The summary lines ("Plan: 1 to add, ...", "Apply complete! ...") and all names
// in JSON output are an interface: programs search for them.
package view

import (
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
)

// View is how the commands speak.
type View interface {
	// Version shows what program this is.
	Version(Version)
	// Diagnostics shows errors and warnings, with their source where files has it.
	Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File)
	// Error shows the error a command ends with, explained by [Explain].
	Error(error)
	// Validation shows the verdict of validate, diagnostics included.
	Validation(diags hcl.Diagnostics, files map[string]*hcl.File)
	// Plan shows what an apply would do, the problems included.
	Plan(Plan)
	// Event shows what happens during an apply on the named ensemble.
	Event(ensemble string, e apply.Event)
	// Still shows what an apply is about since a while ago, now being the time.
	Still(ensemble string, open []Ongoing, now time.Time)
	// Applied shows the end of an apply or destroy over all its ensembles.
	Applied(Applied)
	// Outputs shows the output values, each as name = value.
	Outputs([]plan.Output)
	// Tree shows what a stack has in ZooKeeper.
	Tree([]*plan.Tree)
	// Status shows who holds and who waits.
	Status(Status)
	// Top shows the locks that are in use, the most wanted first.
	Top(Top)
	// Locks shows what stands at a path and below it.
	Locks(Locks)
	// Checkup shows whether what locks rest on holds.
	Checkup(Checkup)
	// Message shows a line for people that no program depends on.
	Message(text string)
}

// Address is put into a diagnostic's Extra to say which resource it is about.
type Address string

// Version is what `version` shows.
type Version struct {
	Version       string // without a leading v
	Platform      string // "linux_amd64"
	Revision      string // of the commit, "" when the build recorded none
	Modified      bool   // built from a changed working copy
	PayloadFormat int    // of the data in znodes this program writes and reads
}

// Plan is one or more plans, one an ensemble, and what is to be said with them.
type Plan struct {
	Plans     []*plan.Plan
	Checks    []plan.Check         // of the configuration; those that do not hold are diagnostics already
	Operation string               // "plan", "apply" or "destroy"
	Files     map[string]*hcl.File // to show where a problem is declared
	Concise   bool                 // one line a change
	SavedTo   string               // the file of plan -out, "" without
	NowMs     int64                // milliseconds since 1970, to say how long a lock is held; 0 leaves that out
	NoAdvice  bool                 // the plan is applied right away: nothing about -out
}

// Ongoing is a change, or the draining before it, that began and has not ended.
type Ongoing struct {
	apply.Started
	Drains bool // it waits for those who use the lock; Action is not set then
	Since  time.Time
}

// Applied is the end of an apply.
type Applied struct {
	Operation string // "apply" or "destroy"
	Counts    plan.Counts
	Outputs   []plan.Output
}

// Status is the live trees and how they differ from the configuration.
type Status struct {
	Trees []*plan.Tree
	// Drift are, per tree, the plans that would put the configuration in force.
	Drift []*plan.Plan
	// Servers are, per tree, where it was read from.
	Servers []string
	// Waits are, per tree, who waits for whom.
	Waits []*inspect.Waits
	NowMs int64
}

// Top is one look at what is in use.
type Top struct {
	Status
	Rows    int   // at most so many locks; 0: all
	Error   error // why nothing newer is known: what is shown is stale since NowMs
	ShownMs int64 // when it is shown
}

// Locks is what stands at a path and below it, on each ensemble that has it.
type Locks struct {
	Ensembles []LocksOf
	NowMs     int64
}

// LocksOf are the locks of one ensemble.
type LocksOf struct {
	Ensemble string
	Servers  string
	Path     string
	inspect.Listing
	Waits *inspect.Waits
}
