package recipes

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// Client pending
type Client struct {
	cfg   Config
	done  chan struct{} // closed when Close begins
	state clientState   // the recipes' own
}

// Session pending
type Session struct{}

func Dial(ctx context.Context, cfg Config) (*Client, error)                       { panic("pending") }
func (c *Client) Close() error                                                    { panic("pending") }
func (c *Client) Session(ctx context.Context) (*Session, error)                   { panic("pending") }
func (c *Client) Identities() []Identity                                          { panic("pending") }
func (s *Session) ID() int64                                                      { panic("pending") }
func (s *Session) Timeout() time.Duration                                         { panic("pending") }
func (s *Session) State() State                                                   { panic("pending") }
func (s *Session) Done() <-chan struct{}                                          { panic("pending") }
func (s *Session) Err() error                                                     { panic("pending") }
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) { panic("pending") }
func (s *Session) Exists(ctx context.Context, path string) (*zk.Stat, error)      { panic("pending") }
func (s *Session) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	panic("pending")
}
func (s *Session) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	panic("pending")
}
func (s *Session) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	panic("pending")
}
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	panic("pending")
}
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	panic("pending")
}
func (s *Session) Delete(ctx context.Context, path string, version int32) error { panic("pending") }
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	panic("pending")
}
func (s *Session) Sync(ctx context.Context, path string) error { panic("pending") }
