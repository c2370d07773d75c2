package wire

import "fmt"

// Operations (ZooDefs.OpCode).
const (
	OpCreate               int32 = 1
	OpDelete               int32 = 2
	OpExists               int32 = 3
	OpGetData              int32 = 4
	OpSetData              int32 = 5
	OpGetACL               int32 = 6
	OpSetACL               int32 = 7
	OpGetChildren          int32 = 8
	OpSync                 int32 = 9
	OpPing                 int32 = 11
	OpGetChildren2         int32 = 12
	OpCheck                int32 = 13
	OpMulti                int32 = 14
	OpCreate2              int32 = 15
	OpReconfig             int32 = 16
	OpCheckWatches         int32 = 17
	OpRemoveWatches        int32 = 18
	OpCreateContainer      int32 = 19
	OpDeleteContainer      int32 = 20
	OpCreateTTL            int32 = 21
	OpMultiRead            int32 = 22
	OpAuth                 int32 = 100
	OpSetWatches           int32 = 101
	OpSASL                 int32 = 102
	OpGetEphemerals        int32 = 103
	OpGetAllChildrenNumber int32 = 104
	OpSetWatches2          int32 = 105
	OpAddWatch             int32 = 106
	OpWhoAmI               int32 = 107
	OpCloseSession         int32 = -11

	// OpConnect is ours: the handshake has no operation code on the wire.
	OpConnect int32 = -1000

	opError int32 = -1 // in a multi's results: the operation failed, or was rolled back
)

// Xids that are not a request's own number.
const (
	XidEvent int32 = -1
	XidPing  int32 = -2
)

// OpNames are the operations that the server knows, with their names in counts and faults.
var OpNames = map[int32]string{
	OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "getData",
	OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "getChildren",
	OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2", OpCheck: "check",
	OpMulti: "multi", OpCreate2: "create2", OpReconfig: "reconfig", OpCheckWatches: "checkWatches",
	OpRemoveWatches: "removeWatches", OpCreateContainer: "createContainer",
	OpDeleteContainer: "deleteContainer", OpCreateTTL: "createTTL", OpMultiRead: "multiRead",
	OpAuth: "auth", OpSetWatches: "setWatches", OpSASL: "sasl", OpGetEphemerals: "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber", OpSetWatches2: "setWatches2",
	OpAddWatch: "addWatch", OpWhoAmI: "whoAmI", OpCloseSession: "closeSession",
	OpConnect: "connect",
}

// OpName is an operation's name, or its number.
func OpName(op int32) string {
	if n, ok := OpNames[op]; ok {
		return n
	}
	return fmt.Sprintf("op(%d)", op)
}

// IsWrite reports whether an operation goes through the leader as a transaction.
func IsWrite(op int32) bool {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpDeleteContainer, OpSetData, OpSetACL, OpCheck, OpMulti, OpReconfig:
		return true
	}
	return false
}

// Code is an error code of the protocol (KeeperException.Code).
type Code int32

// The codes that the server answers.
const (
	CodeOK                      Code = 0
	CodeSystemError             Code = -1
	CodeRuntimeInconsistency    Code = -2 // in a multi's results: the operation was rolled back
	CodeMarshallingError        Code = -5
	CodeUnimplemented           Code = -6
	CodeOperationTimeout        Code = -7
	CodeBadArguments            Code = -8
	CodeNoNode                  Code = -101
	CodeNoAuth                  Code = -102
	CodeBadVersion              Code = -103
	CodeNoChildrenForEphemerals Code = -108
	CodeNodeExists              Code = -110
	CodeNotEmpty                Code = -111
	CodeSessionExpired          Code = -112
	CodeInvalidACL              Code = -114
	CodeAuthFailed              Code = -115
	CodeSessionMoved            Code = -118
	CodeNotReadOnly             Code = -119
	CodeNoWatcher               Code = -121
	CodeReconfigDisabled        Code = -123
	CodeSASLRequired            Code = -124
	CodeQuotaExceeded           Code = -125
	CodeThrottled               Code = -127
)

var codeNames = map[Code]string{
	CodeOK: "OK", CodeSystemError: "SystemError", CodeRuntimeInconsistency: "RuntimeInconsistency",
	CodeMarshallingError: "MarshallingError", CodeUnimplemented: "Unimplemented", CodeOperationTimeout: "OperationTimeout",
	CodeBadArguments: "BadArguments", CodeNoNode: "NoNode", CodeNoAuth: "NoAuth", CodeBadVersion: "BadVersion",
	CodeNoChildrenForEphemerals: "NoChildrenForEphemerals", CodeNodeExists: "NodeExists",
	CodeNotEmpty: "NotEmpty", CodeSessionExpired: "SessionExpired", CodeInvalidACL: "InvalidACL",
	CodeAuthFailed: "AuthFailed", CodeSessionMoved: "SessionMoved", CodeNotReadOnly: "NotReadOnly",
	CodeNoWatcher: "NoWatcher", CodeReconfigDisabled: "ReconfigDisabled",
	CodeQuotaExceeded: "QuotaExceeded", CodeThrottled: "ThrottledOp",
}

// String returns ZooKeeper's name for the code, or its number.
func (c Code) String() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("Code(%d)", int32(c))
}

// EventType is the type of a watch event.
type EventType int32

// The types of watch events.
const (
	EventCreated         EventType = 1
	EventDeleted         EventType = 2
	EventDataChanged     EventType = 3
	EventChildrenChanged EventType = 4
)

var eventNames = map[EventType]string{
	EventCreated: "created", EventDeleted: "deleted", EventDataChanged: "dataChanged", EventChildrenChanged: "childrenChanged",
}

// String is "created", "deleted", "dataChanged" or "childrenChanged".
func (e EventType) String() string { return eventNames[e] }

// stateSyncConnected is the state that all watch events carry.
const stateSyncConnected int32 = 3
