// Package wire is ZooKeeper's client protocol as its server speaks it: it cuts a stream into frames, decodes requests, and encodes
// replies and watch events. It knows no tree, no session and no connection.
//
// The package shares nothing with recipes/internal/session/wire, which the client has: two codecs that were written apart find each other's
// mistakes.
package wire

// codes.go has the numbers of the protocol and their names, and record.go the primitives and records that requests and replies share.
// frame.go has the frames, request.go what clients send, and reply.go what the server answers.
