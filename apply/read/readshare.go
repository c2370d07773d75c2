package read

import (
	"reflect"
	"slices"
	"sync"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// sharing replaces values that were read by equal declared ones. In most plans nearly every node is as declared, and its path,
// address, parameters and access lists would be in memory twice. Nothing that is read or declared is changed afterwards, so
// sharing is safe.
type sharing struct {
	desired *plan.Tree

	mu    sync.Mutex
	lists []kind.List // the different access lists seen, few
}

// maxLists bounds the search for an equal access list, for trees with a different one on every node.
const maxLists = 64

// list returns the first access list seen that has the same entries in the same order.
func (s *sharing) list(acl kind.List) kind.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seen := range s.lists {
		if slices.Equal(seen, acl) {
			return seen
		}
	}
	if len(s.lists) < maxLists && len(acl) > 0 {
		s.lists = append(s.lists, slices.Clip(acl))
	}
	return acl
}

// decode fills in a node's payload, or its trouble, and shares the parts with the declaration at its path.
func (s *sharing) decode(n *plan.Node, data []byte) {
	want := s.desired.Find(n.Path)
	if want != nil && want.Payload != nil {
		n.Path = want.Path
		// Nearly all nodes are as declared.
		if n.Payload = want.Payload.Found(data); n.Payload != nil {
			return
		}
	}
	n.Payload, n.Live.Trouble, n.Live.Detail = decode(data)
	p := n.Payload
	if p == nil {
		return
	}
	if p.Owner.Stack == s.desired.Stack {
		p.Owner.Stack = s.desired.Stack
	}
	if len(p.ChildACL) > 0 {
		p.ChildACL = s.list(p.ChildACL)
	}
	if want == nil || want.Payload == nil {
		return
	}
	// Assigning an equal string frees the one that the decoder made.
	if p.Owner.Addr == string(want.Addr) {
		p.Owner.Addr = string(want.Addr)
	}
	// Parameters are plain structs behind a pointer, so equal means the same kind with the
	// same values.
	if reflect.DeepEqual(p.Params, want.Payload.Params) {
		p.Params = want.Payload.Params
	}
}
