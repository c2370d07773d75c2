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

// FormerKeys counts the nodes of keys that were looked at and have a former list, and reports whether that are all.
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
		return fmt.Sprintf("%d keys have a node, and %d of the %d that were looked at have the former access list: apply sets the new one on all that have it", k.Nodes, n, k.Looked)
	case n == 1:
		return "1 key has a node with the former access list: apply sets the new one"
	case n > 1:
		return fmt.Sprintf("%d keys have a node with the former access list: apply sets the new one", n)
	}
	return ""
}
