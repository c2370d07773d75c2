package session

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// Ahead is a session whose reads may have been sent before they are asked for: many of them in one write, and answered while
// the caller is busy with the first. Whatever was not sent ahead is sent when it is asked for, so an Ahead answers every
// read, and its errors and retries are those of the session. It is for one goroutine.
//
// An answer may be as old as its request: nobody may read ahead what it writes in between.
type Ahead struct {
	*Session
	noted *Batch   // not sent yet
	sent  []*Reply // and not asked for yet, in order
}

// ReadAhead returns an Ahead that has sent nothing yet.
func (s *Session) ReadAhead() *Ahead { return &Ahead{Session: s, noted: s.Batch()} }

// WillGet, WillGetACL and WillExist note a read that is to be sent with the others.
func (a *Ahead) WillGet(path string)    { a.noted.add(readData(path)) }
func (a *Ahead) WillGetACL(path string) { a.noted.add(readACL(path)) }
func (a *Ahead) WillExist(path string)  { a.noted.add(readStat(path)) }

// Send sends what was noted. What was sent before and has not been asked for is forgotten.
func (a *Ahead) Send(ctx context.Context) {
	if a.sent = nil; a.noted.Send(ctx) == nil {
		a.sent = a.noted.replies
	} // else each is sent when it is asked for, and has the error then
	a.noted = a.Batch()
}

// Get is Session.Get.
func (a *Ahead) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := a.take(ctx, readData(path))
	return r.data, r.stat, err
}

// GetACL is Session.GetACL.
func (a *Ahead) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := a.take(ctx, readACL(path))
	return r.acl, r.stat, err
}

// Exists is Session.Exists.
func (a *Ahead) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return existing(a.take(ctx, readStat(path)))
}

// take waits for a read. Those that were noted before it and not asked for are forgotten.
func (a *Ahead) take(ctx context.Context, o *op) (*reply, error) {
	for i, r := range a.sent {
		if r.op == o.code && r.path == o.path {
			a.sent = a.sent[i+1:]
			return a.await(ctx, o, &r.call)
		}
	}
	return a.run(ctx, o)
}
