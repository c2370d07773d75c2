package plan

import (
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// adoptions prepares the declared imports. A znode is taken over at its path, which has to be the declared one.
//
// An import that is done already is skipped, so that its block may stay in the configuration for
// ever, as in Terraform. It is done if there is a node of ours at the declared path, or if the node is ours under this address.
func (d *pairing) adoptions() {
	for i := range d.intent.Imports {
		imp := &d.intent.Imports[i]
		want := d.byAddr[imp.To]
		if want == nil {
			continue // the address is not declared, which Load reports
		}
		if d.ours(d.have[want.Path]) {
			d.importedAlready(imp, want)
			continue
		}
		have := d.have[imp.Path]
		if d.ours(have) && d.byAddr[d.intent.Rename(have.owned())] == want {
			continue // it is done, and the path has changed since
		}
		if d.vanished(imp, want) {
			continue
		}
		d.imports[want.Path] = imp
		if !d.adoptable(imp, want, have) {
			d.refused[want.Path] = true
			continue
		}
	}
}

// importedAlready reports an import on the command line that cannot be the one that made the node at the declared
// path: its znode is still there. A block is old, and its path may be somebody else's by now.
func (d *pairing) importedAlready(imp *Import, want *Node) {
	have := d.have[imp.Path]
	if !imp.ByCommand || imp.Path == want.Path || have == nil {
		return
	}
	who := fmt.Sprintf("To take over %s, import it to another address.", imp.Path)
	switch {
	case d.ours(have):
		who = fmt.Sprintf("%s is this stack's too, as %s, so nothing is left to import.", imp.Path, have.owned())
	case have.Payload != nil && have.Payload.Owner.Stack != "":
		who = fmt.Sprintf("%s belongs to stack %q (%s). Leave it there, or correct the path.", imp.Path, have.Payload.Owner.Stack, have.owned())
	}
	d.problem(Error, ProblemImport, &Node{Addr: want.Addr, Path: imp.Path, Origin: imp.Origin}, "Import of a lock that is there already",
		fmt.Sprintf("%s is to be imported from %s, but the stack has it already, at %s. %s", want.Addr, imp.Path, want.Path, who))
}

// vanished reports whether an import block names a node that is gone, and warns of it. Such a block must not stop a plan: it was
// right once, and a container that was taken over while it was in use vanishes some time after the last one left.
func (d *pairing) vanished(imp *Import, want *Node) bool {
	if imp.ByCommand || d.have[imp.Path] != nil || d.insideLock(imp.Path) {
		return false
	}
	d.problem(Warning, ProblemImport, &Node{Addr: want.Addr, Path: imp.Path, Origin: imp.Origin}, "Nothing to import",
		fmt.Sprintf("%s is to be imported from %s, where no node exists, so nothing is taken over: it is planned as declared. "+
			"Correct the path if programs use another one, or remove the import block.", want.Addr, imp.Path))
	return true
}

// insideLock reports whether a path is that of a child of a lock.
func (d *sides) insideLock(path string) bool {
	lock := d.have[kind.ParentPath(path)]
	return lock.Kind() != nil && !lock.Kind().Container
}

// adoptable reports whether a znode can be taken over, and adds a problem if not.
//
// Its data is checked last. The data of a lock of ours, or of a forgotten one, is a declaration. Newer
// formats and data that we may not read are refused in any case. An import destroys all other data,
// and only a person can say what that is worth.
func (d *pairing) adoptable(imp *Import, want, have *Node) bool {
	n := &Node{Addr: want.Addr, Path: imp.Path, Origin: imp.Origin}
	refuse := func(summary, format string, args ...any) bool {
		d.problem(Error, ProblemImport, n, summary, fmt.Sprintf(format, args...))
		return false
	}
	if have == nil && d.insideLock(imp.Path) {
		lock := d.have[kind.ParentPath(imp.Path)]
		return refuse("Import of a part of a lock", "%s is inside %s, which is a %s: everything inside a lock is part of it. Correct the path.",
			imp.Path, lock.Path, lock.Kind().Name)
	}
	if have == nil {
		return refuse("Nothing to import", "%s is to be imported from %s, where no node exists. Correct the path, or let \"locktree apply\" create it.", want.Addr, imp.Path)
	}
	trouble, detail := troubleOf(have)
	switch {
	case have.Live != nil && have.Live.Ephemeral:
		or := ", or remove the import block"
		if imp.ByCommand {
			or = ""
		}
		return refuse("Import of an ephemeral node", "%s is ephemeral and ends with its session, so it cannot be a lock. Correct the path%s.", imp.Path, or)
	case trouble == "" && d.ours(have):
		return refuse("Import of a node that is managed already", "%s is this stack's already, as %s. Declare moved { from = %s, to = %s } instead of the import.",
			imp.Path, have.owned(), have.owned(), want.Addr)
	case trouble == "" && have.Payload.Owner.Stack == "" && have.Kind().Container && !want.Kind().Container && have.Live != nil && have.Live.Children > 0:
		return refuse("Import of a namespace as a lock", "%s is a namespace and holds %d node%s, so it cannot become %s: every child of a lock counts as a contender. "+
			"Declare a namespace there and import that, or delete by hand what is in it.", imp.Path, have.Live.Children, plural(have.Live.Children), want.Addr)
	case trouble == "" && have.Payload.Owner.Stack != "":
		return refuse("Import from another stack", "%s belongs to stack %q (%s). Declare removed { from = %s } with destroy = false there, and apply that first.",
			imp.Path, have.Payload.Owner.Stack, have.owned(), have.owned())
	case trouble == TroubleUnreadable:
		return refuse("Node cannot be imported", "This connection cannot read %s. Connect with an identity that has READ there.", imp.Path)
	case trouble == TroubleNewer:
		return refuse("Node cannot be imported", "%s is of a newer version: %s.", imp.Path, detail)
	case imp.Path != want.Path:
		return refuse("Import to another path", "%s is to be imported from %s, but it is declared at %s. An import takes a lock over where it is: "+
			"set name, or declare it in the namespace that the lock is in.", want.Addr, imp.Path, want.Path)
	case trouble == "":
		return true
	case have.Live != nil && have.Live.DataLength > 0 && !d.opts.OverwriteData:
		return refuse("Node holds data", "%s holds %d bytes that another program wrote there, which an import replaces. "+
			"Make sure that nobody needs them and plan with -overwrite-data, or empty the node by hand.", imp.Path, have.Live.DataLength)
	}
	return true
}

// unowned returns a node that is to be taken over, as if it had been declared as wanted, but without
// an owner: then only real differences show as changes.
//
// A forgotten node has a payload, with which the declaration is compared. Another program's node has
// none. Without this every parameter would show as a change, although its users see none.
func unowned(have, want *Node) *Node {
	if have.Payload != nil {
		return have
	}
	b, p := *have, *want.Payload
	p.Owner, p.Gen, p.Protect, p.State = kind.Owner{}, 0, false, kind.StateActive
	b.Payload, b.Addr = &p, want.Addr
	return &b
}

// adoption is the change of a znode that becomes the declared node at its present path.
//
// A foreign node may be a container: Curator's lock nodes are, no answer of a server reveals it
// (DataNode.getClientEphemeralOwner hides it), and servers delete containers that are empty
// (ContainerManager). The declaration would vanish with it. So the node is created again if that
// disturbs nobody, which is while it is empty; otherwise its payload says that it was made elsewhere, and each later plan tries again.
func (d *decisions) adoption(want, have *Node) (Change, bool) {
	imp := d.imports[want.Path]
	if imp == nil || imp.Path != want.Path {
		return Change{}, false
	}
	foreign := have.Payload == nil
	c := Change{Addr: want.Addr, Path: want.Path, Kind: want.Kind(), Usage: usage(have), Importing: imp.Path}
	c.Before, c.After = unowned(have, want), want.withPayload()
	c.After.Payload.Carry(c.Before.Payload)
	c.After.Payload.Gen = c.Before.Payload.Gen + 1
	c.compare()
	d.keyed(&c)
	c.Action = Update
	switch {
	case len(c.ForcesReplace) > 0:
		d.remake(&c, want, ReasonReplaceCannotUpdate)
	case foreign && empty(have, c.Kind):
		c.Action, c.Reason, c.MissingParts = Replace, ReasonReplaceContainer, nil
	case foreign && !c.Kind.Container:
		c.After.Payload.Made = kind.MadeElsewhere
	}
	if c.Action == Replace {
		c.After.Payload.Made = kind.MadeHere
	}
	return c, true
}

// Leave turns a change that was to create a node again, because it may be a container, into one that leaves the node where it is: by
// the time of the apply the lock is in use. It returns false if that was not the reason. Transactions that are not sent yet follow.
func (c *Change) Leave() bool {
	if c.Reason != ReasonReplaceContainer {
		return false
	}
	after := c.After.withPayload()
	after.Payload.Carry(c.Before.Payload)
	c.Action, c.Reason, c.MissingParts, c.After = Update, "", missing(c.Before), after
	switch {
	case c.Importing != "" && !c.Kind.Container:
		after.Payload.Made = kind.MadeElsewhere
	case c.Importing == "" && !c.rewrites():
		after.Payload.Gen = c.Before.Payload.Gen
		if c.ACL == nil && c.MissingParts == nil {
			c.Action, c.After = NoOp, c.Before
		}
	}
	return true
}

// containers warns of the locks that stay in nodes which other programs made.
func (d *sides) containers() {
	var paths []string
	for c := range d.p.Each() {
		if c.stays() && c.After.Payload.Made == kind.MadeElsewhere {
			paths = append(paths, c.Path)
		}
	}
	if n := len(paths); n > 0 {
		d.problem(Warning, ProblemContainer, &Node{}, "Locks may be containers",
			fmt.Sprintf("%d lock%s in use in a node that another program made: %s. If that is a container, the servers delete it soon after the last program leaves, "+
				"and programs that use this library are refused until the next apply. Each apply creates those again that it finds idle, as nodes that stay.",
				n, map[bool]string{true: " is", false: "s are"}[n == 1], Few(paths, 3)))
	}
}

// empty reports whether a node can be deleted and created again: it has no children except its parts.
// Other children are contenders, or whatever somebody keeps there.
func empty(n *Node, k *kind.Kind) bool {
	if n.Live == nil {
		return false
	}
	own := 0
	for _, p := range n.Live.Parts {
		if p.Absent {
			continue
		}
		if own++; p.Children > 0 {
			return false
		}
	}
	return n.Live.Children == own
}
