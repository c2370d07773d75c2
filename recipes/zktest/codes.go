package zktest

import (
	"fmt"
	"strings"
)

// Operation codes of the client protocol, as in ZooKeeper's ZooDefs.OpCode.
const (
	opNotification         int32 = 0
	opCreate               int32 = 1
	opDelete               int32 = 2
	opExists               int32 = 3
	opGetData              int32 = 4
	opSetData              int32 = 5
	opGetACL               int32 = 6
	opSetACL               int32 = 7
	opGetChildren          int32 = 8
	opSync                 int32 = 9
	opPing                 int32 = 11
	opGetChildren2         int32 = 12
	opCheck                int32 = 13
	opMulti                int32 = 14
	opCreate2              int32 = 15
	opReconfig             int32 = 16
	opCheckWatches         int32 = 17
	opRemoveWatches        int32 = 18
	opCreateContainer      int32 = 19
	opDeleteContainer      int32 = 20
	opCreateTTL            int32 = 21
	opMultiRead            int32 = 22
	opAuth                 int32 = 100
	opSetWatches           int32 = 101
	opSASL                 int32 = 102
	opGetEphemerals        int32 = 103
	opGetAllChildrenNumber int32 = 104
	opSetWatches2          int32 = 105
	opAddWatch             int32 = 106
	opWhoAmI               int32 = 107
	opCloseSession         int32 = -11
	opError                int32 = -1

	// opConnect is ours: the handshake has no operation code on the wire.
	opConnect int32 = -1000
)

var opNames = map[int32]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "getData",
	opSetData: "setData", opGetACL: "getACL", opSetACL: "setACL", opGetChildren: "getChildren",
	opSync: "sync", opPing: "ping", opGetChildren2: "getChildren2", opCheck: "check",
	opMulti: "multi", opCreate2: "create2", opReconfig: "reconfig", opCheckWatches: "checkWatches",
	opRemoveWatches: "removeWatches", opCreateContainer: "createContainer",
	opDeleteContainer: "deleteContainer", opCreateTTL: "createTTL", opMultiRead: "multiRead",
	opAuth: "auth", opSetWatches: "setWatches", opSASL: "sasl", opGetEphemerals: "getEphemerals",
	opGetAllChildrenNumber: "getAllChildrenNumber", opSetWatches2: "setWatches2",
	opAddWatch: "addWatch", opWhoAmI: "whoAmI", opCloseSession: "closeSession",
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
	case opCreate2, opCreateContainer, opCreateTTL:
		return "CREA"
	case opGetChildren2:
		return "GETC"
	case opSetWatches2:
		return "STW2"
	case opMultiRead:
		return "MLTR"
	case opWhoAmI:
		return "HOMI"
	case opGetAllChildrenNumber:
		return "GETACN"
	case opCheckWatches:
		return "CHKW"
	}
	name := strings.ToUpper(opName(op))
	return name[:min(4, len(name))]
}

// Code is an error code of the client protocol, as in ZooKeeper's
// KeeperException.Code. [Fail] makes the server answer with one; those that have no
// name here can be given by number, such as Code(-118).
type Code int32

// The codes this server answers by itself, and those a test may want to inject.
const (
	codeOK                      Code = 0
	CodeSystemError             Code = -1
	codeRuntimeInconsistency    Code = -2
	codeMarshallingError        Code = -5
	codeUnimplemented           Code = -6
	codeOperationTimeout        Code = -7
	codeBadArguments            Code = -8
	CodeNoNode                  Code = -101
	CodeNoAuth                  Code = -102
	codeBadVersion              Code = -103
	codeNoChildrenForEphemerals Code = -108
	CodeNodeExists              Code = -110
	codeNotEmpty                Code = -111
	codeSessionExpired          Code = -112
	codeInvalidACL              Code = -114
	codeAuthFailed              Code = -115
	codeSessionMoved            Code = -118
	codeNotReadOnly             Code = -119
	codeNoWatcher               Code = -121
	codeReconfigDisabled        Code = -123
	CodeQuotaExceeded           Code = -125
	CodeThrottled               Code = -127
)

var codeNames = map[Code]string{
	codeOK: "OK", CodeSystemError: "SystemError", codeRuntimeInconsistency: "RuntimeInconsistency",
	codeMarshallingError: "MarshallingError",
	codeUnimplemented:    "Unimplemented", codeOperationTimeout: "OperationTimeout",
	codeBadArguments: "BadArguments",
	CodeNoNode:       "NoNode", CodeNoAuth: "NoAuth", codeBadVersion: "BadVersion",
	codeNoChildrenForEphemerals: "NoChildrenForEphemerals", CodeNodeExists: "NodeExists",
	codeNotEmpty: "NotEmpty", codeSessionExpired: "SessionExpired", codeInvalidACL: "InvalidACL",
	codeAuthFailed: "AuthFailed", codeSessionMoved: "SessionMoved", codeNotReadOnly: "NotReadOnly",
	codeNoWatcher: "NoWatcher", codeReconfigDisabled: "ReconfigDisabled",
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

// Xids that are not a request's own number.
const (
	xidNotification int32 = -1
	xidPing         int32 = -2
)
