package zktest

import "github.com/locktree/locktree/recipes/zktest/internal/wire"

// Code is an error code of the client protocol, as in ZooKeeper's
// KeeperException.Code. [Fail] makes the server answer with one; those that have no
// name here can be given by number, such as Code(-118).
type Code int32

// The codes that tests inject or ask for.
const (
	CodeSystemError   = Code(wire.CodeSystemError)
	CodeNoNode        = Code(wire.CodeNoNode)
	CodeNoAuth        = Code(wire.CodeNoAuth)
	CodeNodeExists    = Code(wire.CodeNodeExists)
	CodeQuotaExceeded = Code(wire.CodeQuotaExceeded)
	CodeThrottled     = Code(wire.CodeThrottled)
)

// String returns ZooKeeper's name for the code, or its number.
func (c Code) String() string { return wire.Code(c).String() }

// Error makes a Code usable as an error: errors.Is(err, zktest.CodeNoNode).
func (c Code) Error() string { return "zookeeper answered " + c.String() }
