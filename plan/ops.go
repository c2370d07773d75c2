package plan

import "github.com/locktree/locktree/recipes/kind"

// OpKind is an operation of a ZooKeeper transaction.
type OpKind string

// The operations.
const (
	OpCheck  OpKind = "check"
	OpCreate OpKind = "create"
	OpSet    OpKind = "set"
	OpDelete OpKind = "delete"
)

// Op is one operation of the transaction of a plan.
type Op struct {
	Kind    OpKind
	Addr    string // the change it belongs to; "" for the index
	Path    string
	Data    []byte     // create, set
	ACL     []kind.ACL // create
	Version int32      // check, set, delete
}

// ACLStep is one access list to be set after the transaction.
type ACLStep struct {
	Addr, Path string
	ACL        []kind.ACL
	Aversion   int32 // the access list's version the plan saw
}

// Operations returns the transaction of the plan, in order, the index included:
// what apply sends, and what [Stats] measures. applyID goes into the index and
// is how an apply recognises its own transaction after a lost reply. indexACL is
// what a new index is created with.
func (p *Plan) Operations(applyID string, indexACL []kind.ACL) ([]Op, error) {
	return p.operations(applyID, indexACL)
}

// ACLSteps returns the access lists to be set on existing nodes after the
// transaction, children before parents, so that no step takes away a right the
// next one needs.
func (p *Plan) ACLSteps() []ACLStep { return p.aclSteps() }
