package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// A family declares one node. Those of its keys come and go with the programs that use them, and have the list of contenders
// ([kind.Payload.ChildACL]) as it was when they were made. So they are traffic, and no plan is about them, but for two things: a family
// is deleted only when no key is in use; and when that list changes, the apply gives it to the nodes that have the former one.

// KeyLists says how many of the keys that were looked at have nodes with these lists: the node of a key, and the others that its kind
// needs. An apply that was interrupted may have given some of them another list already.
type KeyLists struct {
	Lists []kind.List // each once
	Keys  int
}

// former are the lists that nodes of keys may still have: that of before the plan, those of before an apply that was interrupted,
// and what such an apply sets in between.
func (d *sides) former(c *Change) (lists []kind.List) {
	if c.ChildACL != nil && len(c.ChildACL.Before) > 0 {
		lists = append(lists, c.ChildACL.Before)
	}
	want := c.After.Payload.ChildACL
	for _, p := range d.pending {
		if p.To.Equal(want) {
			lists = append(lists, p.From)
		}
	}
	for _, l := range slices.Clone(lists) {
		lists = append(lists, slices.Concat(l, want).Normalize())
	}
	return slices.DeleteFunc(lists, func(l kind.List) bool { return l.Equal(want) })
}

// keyed plans the list of the nodes of a family's keys. Without a list that is declared, each client gives them its own.
func (d *sides) keyed(c *Change) {
	if c.Kind.Key == nil || c.Before.Kind() != c.Kind || c.Before.Live == nil || len(c.After.Payload.ChildACL) == 0 {
		return
	}
	c.FormerLists = d.former(c)
	left, seen := c.formerKeys()
	if c.ChildACL == nil && left == 0 && seen { // nothing is left to be finished
		c.FormerLists = nil
	}
}

// formerKeys counts the nodes of keys that were looked at and have a former list, and reports whether that are all.
func (c *Change) formerKeys() (n int, all bool) {
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
	switch n, all := c.formerKeys(); {
	case !all:
		k := keysOf(c.Before)
		return fmt.Sprintf("%d keys have a node, and %d of the %d that were looked at have the former access list: apply sets the new one on all that have it", k.Nodes, n, k.Looked)
	case n == 1:
		return "1 key has a node with the former access list: apply sets the new one"
	case n > 1:
		return fmt.Sprintf("%d keys have a node with the former access list: apply sets the new one", n)
	}
	return ""
}

// keySteps are what the record notes of the lists of nodes of keys, which are not known before they are set.
func (p *Plan) keySteps() (steps []ACLStep) {
	for c := range p.Each() {
		for _, l := range c.FormerLists {
			steps = append(steps, ACLStep{Addr: c.Addr, Path: c.Path, Before: l, ACL: c.After.Payload.ChildACL})
		}
	}
	return steps
}
