package session

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// Reads are reads to be sent together, by their paths.
type Reads struct{ Get, GetACL, Exists []string }

// Ahead is a session with reads that were sent before they are asked for: see direct.Session.ReadAhead. It sends other reads
// when they are asked for, so an Ahead answers every read, with the errors and retries of the session.
type Ahead struct {
	*Session
	sent []*Reply // in order; a read that was asked for has left the list
}

// ReadAhead sends reads.
func (s *Session) ReadAhead(ctx context.Context, reads Reads) Ahead {
	b := s.Batch()
	for _, path := range reads.Get {
		b.add(read(wire.OpGetData, path))
	}
	for _, path := range reads.GetACL {
		b.add(read(wire.OpGetACL, path))
	}
	for _, path := range reads.Exists {
		b.add(read(wire.OpExists, path))
	}
	// If the batch is not sent, each read is sent when it is asked for, and reports its error then.
	if b.Send(ctx) != nil {
		return Ahead{Session: s}
	}
	return Ahead{s, b.replies}
}

// Get is Session.Get.
func (a *Ahead) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := a.take(ctx, read(wire.OpGetData, path))
	return r.Data, r.Stat, err
}

// GetACL is Session.GetACL.
func (a *Ahead) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := a.take(ctx, read(wire.OpGetACL, path))
	return r.ACL, r.Stat, err
}

// Exists is Session.Exists.
func (a *Ahead) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return existing(a.take(ctx, read(wire.OpExists, path)))
}

// take waits for a read. An answer is given once.
func (a *Ahead) take(ctx context.Context, o *op) (*wire.Reply, error) {
	for i, r := range a.sent {
		if r.op == o.code && r.o.path == o.path {
			copy(a.sent[1:], a.sent[:i]) // this moves nothing if the reads are asked for in order
			a.sent = a.sent[1:]
			return a.await(ctx, o, &r.call)
		}
	}
	return a.run(ctx, o)
}
