package plan

import (
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// Everybody reports whether an entry applies to anybody who can reach the servers. In ZooKeeper's ip
// scheme an address may have a prefix length, and /0 matches all.
func Everybody(a kind.ACL) bool {
	return a.Scheme == "world" || a.Scheme == "ip" && len(a.ID) > 2 && a.ID[len(a.ID)-2:] == "/0"
}

// Access is who may use the tool's own nodes: the root, .locktree and everything in it. No identity is in both lists.
type Access struct {
	Admins  kind.List `json:"admins"`            // may apply: all rights
	Readers kind.List `json:"readers,omitempty"` // may plan and look: READ
}

// List is the access list of the nodes that belong to this stack alone.
func (a *Access) List() kind.List { return slices.Concat(a.Admins, a.Readers).Normalize() }

// Administrators are those who are declared, nil if nobody says.
func (a *Access) Administrators() kind.List {
	if a == nil {
		return nil
	}
	return a.Admins
}
