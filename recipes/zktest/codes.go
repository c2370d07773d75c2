package zktest

import (
	"fmt"
	"strings"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// opConnect is ours: the handshake has no operation code on the wire.
const opConnect int32 = -1000

var opNames = map[int32]string{
	jute.OpCreate: "create", jute.OpDelete: "delete", jute.OpExists: "exists", jute.OpGetData: "getData",
	jute.OpSetData: "setData", jute.OpGetACL: "getACL", jute.OpSetACL: "setACL", jute.OpGetChildren: "getChildren",
	jute.OpSync: "sync", jute.OpPing: "ping", jute.OpGetChildren2: "getChildren2", jute.OpCheck: "check",
	jute.OpMulti: "multi", jute.OpCreate2: "create2", jute.OpReconfig: "reconfig", jute.OpCheckWatches: "checkWatches",
	jute.OpRemoveWatches: "removeWatches", jute.OpCreateContainer: "createContainer",
	jute.OpDeleteContainer: "deleteContainer", jute.OpCreateTTL: "createTTL", jute.OpMultiRead: "multiRead",
	jute.OpAuth: "auth", jute.OpSetWatches: "setWatches", jute.OpSASL: "sasl", jute.OpGetEphemerals: "getEphemerals",
	jute.OpGetAllChildrenNumber: "getAllChildrenNumber", jute.OpSetWatches2: "setWatches2",
	jute.OpAddWatch: "addWatch", jute.OpWhoAmI: "whoAmI", jute.OpCloseSession: "closeSession",
	opConnect: "connect",
}

// opName is the name under which an operation is counted and matched.
func opName(op int32) string {
	if n, ok := opNames[op]; ok {
		return n
	}
	return fmt.Sprintf("op(%d)", op)
}

// wordOp is the operation's abbreviation in the answer to "cons".
func wordOp(op int32) string {
	switch op {
	case opConnect:
		return "SESS"
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return "CREA"
	case jute.OpGetChildren2:
		return "GETC"
	case jute.OpSetWatches2:
		return "STW2"
	case jute.OpMultiRead:
		return "MLTR"
	case jute.OpWhoAmI:
		return "HOMI"
	case jute.OpGetAllChildrenNumber:
		return "GETACN"
	case jute.OpCheckWatches:
		return "CHKW"
	}
	name := strings.ToUpper(opName(op))
	return name[:min(4, len(name))]
}

// Code is an error code of the client protocol, as in ZooKeeper's
// KeeperException.Code. [Fail] makes the server answer with one; those that have no
// name here can be given by number, such as Code(-118).
type Code int32

// The codes that tests inject or ask for.
const (
	CodeSystemError   Code = jute.CodeSystemError
	CodeNoNode        Code = jute.CodeNoNode
	CodeNoAuth        Code = jute.CodeNoAuth
	CodeNodeExists    Code = jute.CodeNodeExists
	CodeQuotaExceeded Code = jute.CodeQuotaExceeded
	CodeThrottled     Code = jute.CodeThrottled
)

var codeNames = map[Code]string{
	jute.CodeOK: "OK", CodeSystemError: "SystemError", jute.CodeRuntimeInconsistency: "RuntimeInconsistency",
	jute.CodeMarshallingError: "MarshallingError",
	jute.CodeUnimplemented:    "Unimplemented", jute.CodeOperationTimeout: "OperationTimeout",
	jute.CodeBadArguments: "BadArguments",
	CodeNoNode:            "NoNode", CodeNoAuth: "NoAuth", jute.CodeBadVersion: "BadVersion",
	jute.CodeNoChildrenForEphemerals: "NoChildrenForEphemerals", CodeNodeExists: "NodeExists",
	jute.CodeNotEmpty: "NotEmpty", jute.CodeSessionExpired: "SessionExpired", jute.CodeInvalidACL: "InvalidACL",
	jute.CodeAuthFailed: "AuthFailed", jute.CodeSessionMoved: "SessionMoved", jute.CodeNotReadOnly: "NotReadOnly",
	jute.CodeNoWatcher: "NoWatcher", jute.CodeReconfigDisabled: "ReconfigDisabled",
	CodeQuotaExceeded: "QuotaExceeded", CodeThrottled: "ThrottledOp",
}

// String returns ZooKeeper's name for the code, or its number.
func (c Code) String() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("Code(%d)", int32(c))
}

// Error makes a Code usable as an error: errors.Is(err, zktest.CodeNoNode).
func (c Code) Error() string { return "zookeeper answered " + c.String() }

// Event types and the one keeper state carried by watch events on the wire.
const (
	eventCreated         int32 = 1
	eventDeleted         int32 = 2
	eventDataChanged     int32 = 3
	eventChildrenChanged int32 = 4

	stateSyncConnected int32 = 3
)
