package store

import "github.com/locktree/locktree/recipes/zktest/internal/wire"

// txn is one transaction being applied: one write, one multi, or the end of a
// session. Everything it does is undone when one of its parts fails.
type txn struct {
	tree    *Tree
	by      Caller
	at      Stamp
	undo    []func()
	changes []Change
	// creates overrides the parents' create counts inside a multi, see createCount.
	creates map[string]int32
	quota   quotaState
}

func (t *Tree) begin(by Caller, at Stamp) *txn {
	return &txn{tree: t, by: by, at: at, creates: map[string]int32{}}
}

// Apply executes one write. The changes are in the order of the watches' events.
func (t *Tree) Apply(by Caller, at Stamp, op Op) (Result, []Change) {
	x := t.begin(by, at)
	r := op.apply(x)
	return r, x.changes
}

// Multi executes all of ops or none of them. If code is not OK, ops[len(results)] is the one that was refused, and the results are
// those that the operations before it would have had. With MarshallingError the server fails on the request as a whole.
func (t *Tree) Multi(by Caller, at Stamp, ops []Op) (results []Result, code wire.Code, changes []Change) {
	x := t.begin(by, at)
	results = make([]Result, 0, len(ops))
	for _, op := range ops {
		r := x.part(op)
		if r.Code != wire.CodeOK {
			x.rollback()
			return results, r.Code, nil
		}
		results = append(results, r)
	}
	return results, wire.CodeOK, x.changes
}

// part applies one operation of a multi.
func (t *txn) part(op Op) Result {
	if c, ok := op.(Create); ok {
		c, code := c.inMulti(t.tree.rules)
		if code != wire.CodeOK {
			return Result{Code: code}
		}
		return c.apply(t)
	}
	return op.apply(t)
}

// EndSession removes the ephemeral nodes of a session, in one transaction. No access list applies: an ephemeral goes in any case.
func (t *Tree) EndSession(session int64, at Stamp) []Change {
	x := t.begin(Super, at)
	for _, path := range t.Owned(session) {
		x.drop(path, t.nodes[path])
	}
	return x.changes
}

// rollback undoes everything done so far, last first: each step restores the state that it found, which may be the result of an earlier
// step.
func (t *txn) rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	t.undo, t.changes = nil, nil
}

// noteChange notes a change together with the node's ACL, which decides which watchers get the event. When the watches fire, a deleted node
// no longer has an ACL.
func (t *txn) noteChange(path string, typ wire.EventType, n *node) {
	t.changes = append(t.changes, Change{Path: path, Type: typ, Zxid: t.at.Zxid, acl: n.acl})
}
