package wire

// Error codes (KeeperException.Code).
const (
	CodeOK                      = 0
	CodeSystemError             = -1
	CodeRuntimeInconsistency    = -2 // in a transaction's results also: it was rolled back
	CodeDataInconsistency       = -3
	CodeConnectionLoss          = -4
	CodeMarshallingError        = -5
	CodeUnimplemented           = -6
	CodeOperationTimeout        = -7
	CodeBadArguments            = -8
	CodeInvalidState            = -9
	CodeNewConfigNoQuorum       = -13
	CodeNoNode                  = -101
	CodeNoAuth                  = -102
	CodeBadVersion              = -103
	CodeNoChildrenForEphemerals = -108
	CodeNodeExists              = -110
	CodeNotEmpty                = -111
	CodeSessionExpired          = -112
	CodeInvalidACL              = -114
	CodeAuthFailed              = -115
	CodeSessionMoved            = -118
	CodeNotReadOnly             = -119
	CodeEphemeralOnLocalSession = -120
	CodeNoWatcher               = -121
	CodeRequestTimeout          = -122
	CodeReconfigDisabled        = -123
	CodeSASLRequired            = -124
	CodeQuotaExceeded           = -125
	CodeThrottled               = -127
)
