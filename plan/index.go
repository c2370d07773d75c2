package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

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
