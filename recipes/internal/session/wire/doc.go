// Package wire encodes and decodes ZooKeeper's protocol for a client: frames, operations and error codes. It reads and writes
// bytes; it keeps no state, and knows no connection and no session.
//
//	frame := wire.ConnectFrame(zxid, timeout, id, password)
//	grant, err := wire.ReadGrant(conn)
//
// An [Encoder] appends requests and a [Decoder] reads what a server sent. A [Reply] is the answer to one operation, and a [Grant]
// is the answer to a connect request. [Answer] says what an error code means for the effect of a request.
//
// Reading is safe against hostile servers: it ends, allocates no more than the frame's length, and fails with an error that wraps
// [ErrProtocol] when the bytes are not the protocol.
//
// The in-memory server has its own codec (zktest/internal/wire), so each codec tests the other.
package wire
