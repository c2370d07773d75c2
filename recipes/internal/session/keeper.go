package session

import (
	"bytes"
	"errors"
)

// keeperRejects is the protocol version with which a ClickHouse Keeper that has no leader refuses a session. The session id beside
// it means nothing.
const keeperRejects = 42

// errKeeper: the peer is a ClickHouse Keeper. It opens another session for each connection, whichever session a client asks for.
var errKeeper = errors.New("a ClickHouse Keeper, whose sessions end with their connection, so a lock there cannot survive a reconnect; locktree needs Apache ZooKeeper")

// byKeeper recognises the answer of a ClickHouse Keeper. Its sessions have a password of zeros. ZooKeeper sends one too, with a
// timeout of 0, for a session that has expired.
func (g grant) byKeeper() bool {
	return g.version == keeperRejects || g.timeout > 0 && bytes.Equal([]byte(g.password), newPassword)
}

// metKeeper ends a session that no server has granted, if an attempt failed because the server is a ClickHouse Keeper. A session
// that was granted may still live on the other servers, and goes on to them.
func (s *Session) metKeeper(t Server, err error) {
	if !errors.Is(err, errKeeper) {
		return
	}
	s.mu.Lock()
	s.refusal = Errorf("recipes: %s is %w: name its servers instead", t.Name, errKeeper)
	s.mu.Unlock()
	s.turnedAway()
}
