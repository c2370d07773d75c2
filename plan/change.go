package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Change is what a plan does to one node. Every node that belongs to this stack, before or after the plan, has exactly one
// Change, which may be a NoOp.
//
// Before is set, with its Live, unless the action is Create. After is set unless the action is Delete. Code that makes a Change
// must ensure both.
type Change struct {
	Action Action `json:"action"`
	Addr   Addr   `json:"-"` // the new address; the old one of a deletion
	// PreviousAddr is set when the same node is now declared under another address.
	PreviousAddr Addr   `json:"previous_address,omitempty"`
	Path         string `json:"-"`
	// PreviousPath is the old path of a node that is created at a new path. The deletion of the node at PreviousPath has the new
	// path as its NextPath. A plan shows the two as one replacement, see [Plan.Shown]. For a lock, both are in one transaction.
	PreviousPath string `json:"previous_path,omitempty"`
	NextPath     string `json:"-"`
	// Importing is the path of the znode that is taken over, "" when no znode is taken over. An idle lock is replaced: its node
	// may be a container, which no client can detect and which servers delete when it is unused. A lock in use is updated in
	// place.
	Importing string `json:"importing,omitempty"`
	// Break means that the contenders of the deleted lock are deleted with it, by force.
	Break bool `json:"break,omitempty"`
	// Kind is the recipe type: the new one, the old one of a deletion.
	Kind *kind.Kind `json:"-"`
	// Before is nil for a creation, and After is nil for a deletion. After.Payload is what will be written: generation and fields
	// of newer versions included.
	Before *Node `json:"-"`
	After  *Node `json:"-"`

	Params   []kind.Change `json:"-"` // parameters that differ; nil when the kind itself does
	ACL      *ACLDiff      `json:"-"` // nil when equal
	ChildACL *ACLDiff      `json:"-"` // nil when equal
	Protect  bool          `json:"-"` // its protection (prevent_destroy) changes
	// Revive is true when the node was draining and becomes active again.
	Revive bool `json:"-"`
	// MissingParts are structural children that are gone and will be created again.
	MissingParts []string `json:"-"`
	// Former is the node of the lock at PreviousPath.
	Former *Node `json:"-"`
	// Missing is the outermost part of a deleted node's address that the configuration does not declare. A moved lock may take
	// the path of an old lock that is no longer declared. Then a plan also shows the deletion of the old lock. In the change of
	// the moved lock, the field Leaves has the reason for this deletion, and the field Missing is about the old lock's address.
	Missing Addr   `json:"-"`
	Leaves  Reason `json:"-"`
	// FormerLists are the access lists that the apply replaces by After.Payload.ChildACL on the nodes of a family's keys; nil for
	// most changes.
	FormerLists []kind.List `json:"-"`
	// Unsealed is true when the data is written only to store a new checksum: the old one is missing, the access list changes, or a
	// hand edit happens to match the declaration. The sum is in the node's mark, see package record.
	Unsealed bool `json:"unsealed,omitempty"`
	// Drift is true when the node is not as the last apply left it: it was changed by hand.
	Drift bool `json:"drift,omitempty"`

	Reason Reason `json:"reason,omitempty"`
	// ForcesReplace are the parameters that cannot change in place; "type" when
	// the recipe type differs.
	ForcesReplace []string `json:"-"`
	// Usage is who holds and waits; nil when idle.
	Usage *kind.Usage `json:"-"`
}

// ACLDiff is an access list that changes. Its String hides digests.
type ACLDiff struct {
	Before kind.List `json:"-"`
	After  kind.List `json:"-"`
}

// Reason says why an action was chosen, in the codes of Terraform's JSON plan
// ("action_reason"); "" when it is obvious.
type Reason string

// The reasons.
const (
	ReasonDeleteNoConfig        Reason = "delete_because_no_resource_config"
	ReasonDeleteNoModule        Reason = "delete_because_no_module"
	ReasonDeleteWrongRepetition Reason = "delete_because_wrong_repetition"
	ReasonDeleteEachKey         Reason = "delete_because_each_key"
	ReasonReplaceCannotUpdate   Reason = "replace_because_cannot_update"
	ReasonReplaceByRequest      Reason = "replace_by_request"
	// Not Terraform's: an imported lock is created again because it may be a container, and a node is deleted because its
	// declaration moved to another ensemble.
	ReasonReplaceContainer    Reason = "replace_because_container"
	ReasonDeleteOtherEnsemble Reason = "delete_because_other_ensemble"
)

// staysOwned reports whether the node belongs to the stack afterwards.
func (c *Change) staysOwned() bool { return c.After != nil && c.Action != Forget }

// ReasonText returns the clause that Terraform prints in parentheses, without them:
// "because mutex.books is not in configuration". "" when there is none.
func (c *Change) ReasonText() string {
	at := cmp.Or(c.Missing, c.Addr).last()
	block := at.typ + "." + at.name // as Terraform names it
	switch c.Reason {
	case ReasonDeleteNoConfig, ReasonDeleteNoModule:
		return "because " + block + " is not in configuration"
	case ReasonDeleteWrongRepetition:
		if at.key == "" {
			return "because " + block + " uses for_each"
		}
		return "because " + block + " does not use for_each"
	case ReasonDeleteEachKey: // names the key as it is written, with its quotes
		text := "because key [" + at.key + "] is not in for_each map"
		if cmp.Or(c.Missing, c.Addr) != c.Addr {
			text += " of " + block
		}
		return text
	case ReasonDeleteOtherEnsemble:
		return "because its ensemble is another one"
	case ReasonReplaceCannotUpdate:
		if c.PreviousPath != "" {
			return "because its path changes from " + c.PreviousPath + " to " + c.Path
		}
		return "because " + strings.Join(c.ForcesReplace, ", ") + " cannot change in place"
	case ReasonReplaceByRequest:
		return "as requested"
	case ReasonReplaceContainer:
		return "because it may be a container, which vanishes when unused"
	}
	return ""
}

// Action is what happens to a node. Its value is its symbol in a plan, except for Replace: see Symbol.
// Files and JSON name it in words (MarshalText), so that a symbol may change.
type Action rune

// The actions.
const (
	NoOp    Action = ' '
	Create  Action = '+'
	Update  Action = '~'
	Delete  Action = '-'
	Replace Action = '±' // delete and create in one transaction
	Forget  Action = '.' // the node stays and goes on working, but no longer belongs to a stack
)

// String returns the word used in Terraform's JSON: "no-op", "create", "update",
// "delete", "replace", "forget".
func (a Action) String() string {
	if word := actionWords[a]; word != "" {
		return word
	}
	return "unknown action"
}

var actionWords = map[Action]string{NoOp: "no-op", Create: "create", Update: "update", Delete: "delete", Replace: "replace", Forget: "forget"}

// Symbol returns the symbol in front of the change in a printed plan: "+", "~", "-",
// "-/+", "." or a space.
func (a Action) Symbol() string {
	if a == Replace {
		return "-/+"
	}
	return string(a)
}

// MarshalText writes the word of String.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Renamed reports whether only the node's address changes in a NoOp. Its marker is written nevertheless,
// otherwise every later plan would report the new address again.
func (c *Change) Renamed() bool {
	return c.Action == NoOp && c.PreviousAddr != "" && c.Before != nil && c.Before.Payload.Owner != c.After.Payload.Owner
}

// Compare fills in how After differs from Before. It looks at nothing that lock traffic
// changes, so traffic is never drift.
func (c *Change) Compare() {
	if c.Before.Kind() != c.After.Kind() {
		c.ForcesReplace = []string{"type"}
	} else {
		c.Params = kind.Diff(c.Before.Payload.Params, c.After.Payload.Params)
	}
	for _, p := range c.Params {
		if p.Replace {
			c.ForcesReplace = append(c.ForcesReplace, p.Name)
		}
	}
	have, want := c.Before.Payload, c.After.Payload
	if have.Owner.Addr != want.Owner.Addr && have.Owner.Addr != "" {
		c.PreviousAddr = Addr(have.Owner.Addr)
	}
	c.Protect = have.Protect != want.Protect
	if !have.ChildACL.Equal(want.ChildACL) {
		c.ChildACL = &ACLDiff{have.ChildACL, want.ChildACL}
	}
	c.Revive = have.State != kind.StateActive && cmp.Or(want.State, kind.StateActive) == kind.StateActive
	if !c.Before.ACL.Equal(c.After.ACL) {
		c.ACL = &ACLDiff{c.Before.ACL, c.After.ACL}
	}
	if c.Before.Live == nil || len(c.ForcesReplace) > 0 {
		return // a replacement creates all parts again
	}
	c.MissingParts = missingParts(c.Before)
	for _, part := range c.Before.Live.Parts {
		switch {
		case part.Absent:
		// A part has the node's list, because contenders are created in it. If only a part's list differs, the plan shows it as
		// the node's. ACLSteps finds the parts whose lists must be set.
		case c.ACL == nil && !part.ACL.Equal(c.Kind.PartACL(part.Name, c.After.ACL)):
			c.ACL = &ACLDiff{part.ACL, c.Kind.PartACL(part.Name, c.After.ACL)}
		}
	}
}

// missingParts names the parts that a node lacks.
func missingParts(n *Node) (names []string) {
	for _, part := range n.Live.Parts {
		if part.Absent {
			names = append(names, part.Name)
		}
	}
	return names
}

// Rewrites reports whether the declaration in the node's data changes. A new checksum alone (Unsealed) does not count, nor does
// Forget.
func (c *Change) Rewrites() bool {
	return c.Importing != "" || len(c.Params) > 0 || c.ChildACL != nil || c.Protect || c.Revive || c.PreviousAddr != ""
}

// Hides reports whether the servers hide hashes from us in the list that the plan leaves on the node.
func (c *Change) Hides() bool {
	stays := c.Before != nil && c.Action != Create && c.Action != Replace && c.Before.ACL.Equal(c.After.ACL)
	return c.After.ACL.Masked() || stays && c.Before.ACL.Masked()
}

// Tied returns the other path of a lock whose path changes: both paths change in one transaction. A namespace has no holder, so
// it may be at both paths for a while.
func (c *Change) Tied() (paths []string) {
	if c.PreviousPath != "" && !c.Former.Kind().Container {
		paths = append(paths, c.PreviousPath)
	}
	if c.NextPath != "" && !c.Before.Kind().Container {
		paths = append(paths, c.NextPath)
	}
	return paths
}

// NeedsIdle reports whether the change needs a lock without holders and waiters: deletion and replacement need one. It does not
// depend on who uses it now, which changes while a plan waits for approval. A node that may be a container is not replaced while
// it is in use: see [Change.Leave].
func (c *Change) NeedsIdle() bool {
	if c.Before == nil || c.Before.Kind().Container || c.Reason == ReasonReplaceContainer {
		return false
	}
	return c.Action == Delete || c.Action == Replace
}

// Leave turns the replacement of a node that may be a container into an Update or a NoOp: the lock is in use now, so its node
// stays. Leave returns false if the change recreates the node for another reason. The transactions that are not sent yet are made
// from the changed plan.
func (c *Change) Leave() bool {
	if c.Reason != ReasonReplaceContainer {
		return false
	}
	after := c.After.WithPayload()
	after.Payload.Carry(c.Before.Payload)
	c.Action, c.Reason, c.MissingParts, c.After = Update, "", missingParts(c.Before), after
	switch {
	case c.Importing != "" && !c.Kind.Container:
		after.Payload.Made = kind.MadeElsewhere
	case c.Importing == "" && !c.Rewrites():
		after.Payload.Gen = c.Before.Payload.Gen
		if c.ACL == nil && c.MissingParts == nil {
			c.Action, c.After = NoOp, c.Before
		}
	}
	return true
}

// String writes one line: "~ namespace.a.semaphore.b permits=3 -> 5".
func (c *Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", c.Action.Symbol(), c.Addr)
	if c.PreviousAddr != "" {
		fmt.Fprintf(&b, " (was %s)", c.PreviousAddr)
	}
	for _, p := range c.Params {
		fmt.Fprintf(&b, " %s=%v -> %v", p.Name, p.Before, p.After)
	}
	if c.ACL != nil {
		fmt.Fprintf(&b, " acl=%s", c.ACL)
	}
	if c.ChildACL != nil {
		fmt.Fprintf(&b, " child_acl=%s", c.ChildACL)
	}
	if c.Protect {
		fmt.Fprintf(&b, " protect=%t -> %t", c.Before.Payload.Protect, c.After.Payload.Protect)
	}
	return b.String()
}

// String writes "digest:payments:crd -> digest:payments:cdrwa".
func (d ACLDiff) String() string { return d.Before.String() + " -> " + d.After.String() }

// A plan shows a creation at a new path and the deletion at the old one (the parameter from) as one replacement. joinMove joins
// the two.
func (c *Change) joinMove(from *Change) *Change {
	r := &Change{
		Action: Replace, Reason: ReasonReplaceCannotUpdate, Addr: c.Addr, Path: c.Path, PreviousPath: from.Path, Kind: c.Kind,
		Before: from.Before, After: c.After, Usage: from.Usage, Drift: from.Drift, Break: from.Break,
	}
	r.Compare()
	r.ForcesReplace, r.MissingParts = append([]string{"path"}, r.ForcesReplace...), nil
	return r
}

// A family declares one node. The nodes of its keys come and go with the programs that use them. Each has the access list for
// contenders ([kind.Payload.ChildACL]) that was declared when it was made. So key nodes are traffic, and a plan ignores them with
// two exceptions. A family is deleted only when no key is in use. When that access list changes, the apply sets the new one on the
// key nodes that have the old one.

// FormerKeys counts the key nodes that were looked at and have a former list. It also reports whether every key node was looked
// at.
func (c *Change) FormerKeys() (n int, all bool) {
	for _, l := range c.Before.Live.KeyLists {
		if slices.ContainsFunc(l.Lists, func(l kind.List) bool { return slices.ContainsFunc(c.FormerLists, l.Equal) }) {
			n += l.Keys
		}
	}
	k := keysOf(c.Before)
	return n, k.Nodes == k.Looked
}

func keysOf(n *Node) kind.Keys {
	if n == nil || n.Live == nil || n.Live.Usage == nil {
		return kind.Keys{}
	}
	return n.Live.Usage.Keys
}

// Relists says what an apply does about the nodes of keys that have a former list, "" for nothing.
func (c *Change) Relists() string {
	if len(c.FormerLists) == 0 {
		return ""
	}
	switch n, all := c.FormerKeys(); {
	case !all:
		k := keysOf(c.Before)
		return fmt.Sprintf("%d keys have a node. Of %d that were looked at, %d have the former access list. Apply replaces it on every node that has it", k.Nodes, k.Looked, n)
	case n == 1:
		return "1 key has a node with the former access list: apply sets the new one"
	case n > 1:
		return fmt.Sprintf("%d keys have a node with the former access list: apply sets the new one", n)
	}
	return ""
}
