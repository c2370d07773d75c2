package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// IndexFormat is the version of the record that this package writes, and the only one that it reads.
const IndexFormat = 3

// Index is the stack's record, the data of <root>/.locktree/stacks/<stack>: what no node says. Every transaction of an apply
// writes it, together with the nodes. Its size does not depend on the number of locks.
type Index struct {
	Apply   string            // id of the apply that wrote it
	Key     string            // of the sums in the nodes, see [Plan.Keyed]
	Pending []PendingACL      // access lists that apply has still to set
	Outputs map[string]Output // by name, which they do not have themselves
	// Access is the set of the root that was last in force for this stack; nil if it does not know any. While it replaces the set,
	// Next is what it sets.
	Access, Next kind.List
	// Untracked are the paths of nodes that no walk from the root finds, see [Plan.untrackedPaths].
	Untracked []string
	// Nodes says which nodes the apply left, see [roll].
	Nodes []byte

	Extra map[string]json.RawMessage // fields of newer versions, kept
}

// PendingACL is a change of access lists that an apply has begun: the part of it that ZooKeeper cannot do in a transaction. It
// does not say at which nodes.
type PendingACL struct {
	From kind.List `json:"from"`
	To   kind.List `json:"to"`
}

// maxPending bounds the list of pending changes, in bytes. What is beyond it counts as changed by hand if the apply is interrupted.
const maxPending = 64 << 10

func pendingOf(steps []ACLStep) (all []PendingACL) {
	size := 0
	for _, s := range steps {
		one := PendingACL{s.Before, s.ACL}
		if slices.ContainsFunc(all, func(p PendingACL) bool { return slices.Equal(p.From, one.From) && slices.Equal(p.To, one.To) }) {
			continue
		}
		size += len(`{"from":[],"to":[]},`)
		for _, a := range slices.Concat(one.From, one.To) {
			size += len(a.Scheme) + len(a.ID) + len(`["","","cdrwa"],`)
		}
		if size > maxPending {
			return all
		}
		all = append(all, one)
	}
	return all
}

// IndexPath returns the path of the record of a stack: <root>/.locktree/stacks/<stack>.
func IndexPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "stacks"), stack)
}

// LockPath returns the path of the apply lock of a stack: <root>/.locktree/apply/<stack>.
func LockPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "apply"), stack)
}

// HistoryPath returns the path of the history of a stack: <root>/.locktree/history/<stack>. A destroy leaves it.
func HistoryPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "history"), stack)
}

// OwnPaths are the tool's own nodes in .locktree that are this stack's alone.
func OwnPaths(root, stack string) []string {
	return []string{IndexPath(root, stack), LockPath(root, stack), HistoryPath(root, stack)}
}

// LockPayload returns the data of the apply lock: the declaration of an ordinary
// mutex. acl is the access list of its contenders.
func LockPayload(stack string, acl kind.List) ([]byte, error) {
	params := kind.Mutex.New()
	params.(*kind.MutexParams).Description = fmt.Sprintf("Held while an apply of stack %s is under way.", stack)
	p := &kind.Payload{Params: params, Owner: kind.Owner{Stack: stack, Addr: "apply lock"}, ChildACL: acl, Gen: 1}
	return p.Encode()
}

// ScaffoldPath returns <root>/.locktree, where the tool keeps its own nodes.
func ScaffoldPath(root string) string { return kind.JoinPath(root, ".locktree") }

// Encode writes the record as JSON with sorted keys: equal records give equal bytes.
func (x *Index) Encode() ([]byte, error) {
	doc := make(map[string]any, len(x.Extra)+7)
	for k, v := range x.Extra {
		doc[k] = v
	}
	doc["locktree"], doc["apply"], doc["key"] = IndexFormat, x.Apply, x.Key
	if len(x.Pending) > 0 {
		doc["pending_acl"] = x.Pending
	}
	if len(x.Access) > 0 {
		doc["access"] = x.Access
	}
	if len(x.Next) > 0 {
		doc["next"] = x.Next
	}
	if len(x.Untracked) > 0 {
		doc["untracked"] = x.Untracked
	}
	if len(x.Nodes) > 0 {
		doc["nodes"] = x.Nodes
	}
	if len(x.Outputs) > 0 {
		doc["outputs"] = x.Outputs
	}
	return json.Marshal(doc)
}

// op writes the record where it was read.
func (x *Index) op(at Pin, acl kind.List) (Op, error) {
	data, err := x.Encode()
	if at.Absent {
		return Op{Kind: OpCreate, Path: at.Path, Data: data, ACL: acl}, err
	}
	return Op{Kind: OpSet, Path: at.Path, Data: data, Version: at.Version}, err
}

// ErrNotIndex: the data is not the record of a stack.
var ErrNotIndex = errors.New("plan: not a record of locktree")

// VersionError: the record was written by a newer version of this program.
type VersionError struct{ Got, Reads int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("plan: the record was written in format %d, this program reads format %d: upgrade locktree", e.Got, e.Reads)
}

// DecodeIndex reads what Encode wrote. The error is [ErrNotIndex], a [*VersionError], or says what is damaged; no input makes it panic.
func DecodeIndex(data []byte) (*Index, error) {
	var doc map[string]json.RawMessage
	// A record always has these fields, another node's payload does not.
	if err := json.Unmarshal(data, &doc); err != nil || doc["locktree"] == nil || doc["apply"] == nil {
		return nil, ErrNotIndex
	}
	read := func(key string, to any) error {
		raw, ok := doc[key]
		if !ok {
			return nil
		}
		delete(doc, key)
		if err := json.Unmarshal(raw, to); err != nil {
			return fmt.Errorf("plan: damaged record: %s: %w", key, err)
		}
		return nil
	}
	var format int
	// Checked first: what a newer program wrote may look different without being damaged.
	switch err := read("locktree", &format); {
	case err != nil:
		return nil, err
	case format > IndexFormat:
		return nil, &VersionError{Got: format, Reads: IndexFormat}
	case format < IndexFormat:
		return nil, fmt.Errorf("plan: damaged record: locktree: %d is not a format", format)
	}
	x := &Index{}
	err := cmp.Or(read("apply", &x.Apply), read("key", &x.Key), read("outputs", &x.Outputs), read("access", &x.Access), read("next", &x.Next))
	err = cmp.Or(err, read("pending_acl", &x.Pending), read("untracked", &x.Untracked), read("nodes", &x.Nodes))
	if err != nil {
		return nil, err
	}
	if len(doc) > 0 {
		x.Extra = doc
	}
	return x, nil
}

// Left reports whether a node is as the last apply left it.
func (x *Index) Left(n *Node) bool { return x != nil && n.Payload != nil && n.fits(x.Key) }

// lost reports that the record is damaged, or missing although there are nodes of the stack. Their marks say all that a plan
// needs.
func (d *selection) lost() {
	summary, why := "Record is damaged", "cannot be understood ("+d.current.IndexTrouble+")"
	if d.current.IndexTrouble == "" {
		if d.current.Index != nil || !slices.ContainsFunc(d.p.Changes, func(c Change) bool { return d.ours(c.Before) }) {
			return
		}
		summary, why = "Record is missing", "does not exist, although there are nodes of this stack"
	}
	then := "Apply writes it again, and new sums into the nodes; no lock changes. The outputs are not known until then. " +
		"Changes by hand since the last apply stay unknown, and so do nodes of this stack outside of its namespaces, or where others may create nodes."
	if d.opts.Destroy {
		then = "Nodes of this stack outside of its namespaces, or where others may create nodes, are not known, so they stay where they are."
	}
	d.p.prior.Lost = true
	d.problem(Warning, ProblemIndex, &Node{}, summary, fmt.Sprintf("%s %s. %s", d.p.Index.Path, why, then))
}

// MendsIndex reports whether an apply restores the record; see [ProblemIndex].
func (p *Plan) MendsIndex() bool { return p.prior.Lost }

// unseen warns of nodes that we may not read, or cannot understand, and nobody declares: they may be this stack's.
func (d *selection) unseen() {
	if d.p.Targeted {
		return
	}
	for _, path := range d.current.Unreadable {
		if d.want[path] == nil {
			d.problem(Warning, ProblemUnreadable, &Node{Path: path}, "Node cannot be read",
				fmt.Sprintf("We may not read %s, so it is not known whether it is this stack's. If it is, connect with an identity that has READ there and try again.", path))
		}
	}
	for _, n := range d.current.Illegible {
		whose := "It may be this stack's"
		if n.Addr != "" {
			whose = fmt.Sprintf("It says that it is this stack's %s", n.Addr)
		}
		code, summary, next := ProblemDamaged, "Node is damaged", " Restore its data, or delete the node by hand."
		if n.Live.Trouble == TroubleNewer {
			code, summary, next = ProblemNewer, "Node written by a newer version", ""
		}
		d.problem(Warning, code, n, summary, fmt.Sprintf("%s is not declared, and its mark cannot be understood: %s. %s, but nothing is planned for it.%s",
			n.Path, n.Live.Detail, whose, next))
	}
}

// unreadablePaths are those of the paths at which something stands that cannot be understood.
func (d *sides) unreadablePaths(paths []string) (out []string) {
	for _, path := range paths {
		if n := d.have[path]; n != nil && n.Payload == nil && n.Live != nil && n.Live.Trouble != TroubleForeign {
			out = append(out, path)
		}
	}
	return out
}

// untrackedPaths are the nodes of the stack that no walk from the root finds: a namespace around them is not walked into, or is another
// program's by now. The record names them until they are gone, and before the last transaction also those that are yet to go.
func (p *Plan) untrackedPaths(last bool) []string {
	ours := func(n *Node) bool { return n != nil && n.Payload.Owner.Stack == p.Stack }
	open := func(n *Node) bool { return n != nil && n.Kind().Container && p.othersCanCreate(n.ACL) }
	walked := map[string]bool{}
	for c := range p.Each() {
		namespace := c.Kind.Container && ours(c.After) || ours(c.Before) && c.Before.Kind().Container
		if _, unread := p.Unread[c.Path]; namespace && !open(cmp.Or(c.After, c.Before)) && (!unread || open(c.Before)) {
			walked[c.Path] = true
		}
	}
	found := func(path string) bool {
		for path != p.Root && walked[path] {
			path = kind.ParentPath(path)
		}
		return path == p.Root
	}
	out := slices.Clone(p.prior.Untracked)
	for c := range p.Each() {
		if !found(kind.ParentPath(c.Path)) && (ours(c.After) || !last && ours(c.Before)) {
			out = append(out, c.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxUntracked bounds the paths that the record names, in bytes: every transaction writes the record.
const maxUntracked = 400_000

// crowded finds more nodes where others may create nodes than the record can name.
func (d *selection) crowded() {
	size, paths := 0, d.p.untrackedPaths(false)
	for _, path := range paths {
		size += len(path) + len(`"",`)
	}
	if size > maxUntracked {
		d.problem(Error, ProblemListing, &Node{Path: kind.ParentPath(paths[len(paths)-1])}, "Too many nodes where others may create nodes",
			fmt.Sprintf("The record would name %d nodes of this stack in %d bytes, and it has room for %d. It names those in namespaces in which others may create nodes. "+
				"Declare an acl there by which only administrators create nodes, or give the others a namespace of their own.", len(paths), size, maxUntracked))
	}
}
