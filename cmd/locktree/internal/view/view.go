// Package view shows what the commands found: as text for people or as JSON for
// programs. It decides nothing. Everything it shows is a field of a plan, an event,
// a diagnostic or a small struct of this package, so that the JSON is complete and a
// text can be tested without a command. A value implements [Result]: it
// cannot be shown in one form and forgotten in the other.
//
// The summary lines ("Plan: 1 to add, ...", "Apply complete! ...") and all names
// in JSON output are an interface: programs search for them.
package view

import (
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// Output is where a command speaks.
type Output interface {
	// Diagnostics shows errors and warnings, with their source where files has it.
	Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File)
	// Message shows a line for people that no program depends on.
	Message(text string)
	// Progress shows, until the next one or anything else, how far a step is: on a terminal, or in a stream of messages. nil
	// removes that.
	Progress(*Progress)
	// Show shows what the command found or did.
	Show(Result)
}

// Close ends what a command shows, for outputs that have an end.
func Close(out Output) {
	if c, ok := out.(interface{ Close() }); ok {
		c.Close()
	}
}

// Result is what a command shows, with its two renderings.
type Result interface {
	text(*Human)
	json(*machine)
}

// Address in a diagnostic's Extra says which resource it is about.
type Address string

// Validation is the verdict of validate.
type Validation struct {
	Diagnostics hcl.Diagnostics
	Files       map[string]*hcl.File
}

// Event is what happens during an apply on an ensemble.
type Event struct {
	Ensemble string
	event.Event
}

// Still is what an apply has been doing for a while.
type Still struct {
	Ensemble string
	Open     []Ongoing
	Now      time.Time
}

// Outputs are output values, each shown as name = value.
type Outputs []plan.Output

// Live is what a stack has in ZooKeeper.
type Live []*plan.Tree

// Version is what `version` shows.
type Version struct {
	Version       string // without a leading v
	Platform      string // "linux_amd64"
	Revision      string // of the commit, "" when the build recorded none
	Modified      bool   // built from a changed working copy
	PayloadFormat int    // of the data in znodes this program writes and reads
}

// Plan is one or more plans, one per ensemble, and what to show with them.
type Plan struct {
	Plans []*plan.Plan
	// Incomplete: there are more ensembles, which could not be read. Nothing of it can be applied.
	Incomplete bool
	Checks     []plan.Check         // of the configuration; those that do not hold are diagnostics already
	Files      map[string]*hcl.File // to show where a problem is declared
	Concise    bool                 // one line per change
	Full       bool                 // each change, however many there are
	SavedTo    string               // the file of plan -out, "" without
	NowMs      int64                // milliseconds since 1970, to say how long a lock is held; 0 leaves that out
	NoAdvice   bool                 // the plan is applied at once: no advice about -out
}

// Saved is a plan whose -json is one document.
type Saved struct{ Plan }

// Ongoing is a change, or the draining before it, that has begun and not ended.
type Ongoing struct {
	event.Started
	Drains bool // it waits for those who use the lock; Action is not set then
	Since  time.Time
}

// Applied is the end of an apply.
type Applied struct {
	Operation string // "apply" or "destroy"
	Counts    plan.Counts
	Outputs   Outputs
}

// Status is the live trees and how they differ from the configuration.
type Status struct {
	Trees    []*plan.Tree
	Declared []*plan.Tree // per tree, what is declared there
	// Drift are, per tree, the plans that would put the configuration in force.
	Drift []*plan.Plan
	// Servers are, per tree, where it was read from.
	Servers []string
	// Looks are, per tree, what the servers said of the sessions of holders and waiters, with the families of keyed locks; nil where
	// there is neither, or nothing was asked.
	Looks  []*scan.Snapshot
	Lost   Lost // the ensembles without a tree
	Filter Filter
	NowMs  int64
}

// Locks are the locks that were looked at, on each ensemble.
type Locks struct {
	Ensembles []LocksOf
	NowMs     int64
	Filter    Filter
	Sources   []Source // what "locktree serve" compares with
}

// Source is a configuration that ensembles are compared with.
type Source struct {
	Stack       string // its directory instead, as long as it has never been read
	Path        string // of its directory; "" without a configuration
	Files       int
	Fingerprint string // of its files
	Read        time.Time
	Error       string    // why it could not be read again, "" if it is in force as it stands in its files
	Failed      time.Time // since when
}

// Compared says how an ensemble differs from a configuration.
type Compared struct {
	Root        string
	Drift       *plan.Plan // nil as long as that is not known
	At          time.Time
	Fingerprint string // of the configuration
}

// LocksOf are the locks of one ensemble.
type LocksOf struct {
	Ensemble       string
	Stack          string // by which "locktree serve" looks at it
	Addresses      string // of its servers, as configured
	Path           string // at which they stand, and below; "" for those that are declared
	Key            *KeyOf // whose lock was asked for; nil if it was none
	Error          string // why nothing newer could be read
	Looking        string // how far the look is that follows
	Compared       *Compared
	*scan.Snapshot // nil if nothing could be read
}

// KeyOf is a key of a family.
type KeyOf struct{ Family, Key string }

// Closed are the paths of nodes that are there and cannot be read.
func (e LocksOf) Closed() (paths []string) {
	for _, u := range e.Unread {
		if !u.Missing() {
			paths = append(paths, u.Path)
		}
	}
	return paths
}
