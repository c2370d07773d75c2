//go:build linux

package apply_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// TestRealZooKeeper runs on Apache ZooKeeper what the other tests of this package
// run in memory, each in a root of its own.
func TestRealZooKeeper(t *testing.T) {
	t.Parallel()
	server := realzk.Start(t, realzk.Options{Config: map[string]string{"enforceQuota": "true"}})
	for name, body := range map[string]func(*testing.T, *site){
		"destroy removes everything":                 destroyAll,
		"access lists are set after the transaction": accessLists,
		"second applier is told who is at it":        secondApplier,
		"plan made under the lock is not stale":      planUnderLock,
		"appliers at once are serialised or refused": func(t *testing.T, s *site) { manyAppliers(t, s, 10) },
		"lost reply is resolved":                     lostReply,
		"large plan is applied in batches":           batched,
		"everything at once":                         everything,
		"contender at the last moment is unharmed":   lastMoment,
		"long request that asks changes nothing":     asking,
		"refusal for a quota says so":                quotaRefusal,
		"what would be refused is known before":      checkRefuses,
		"rotation that dies at every list":           rotationDies,
		"family is made with its directories":        func(t *testing.T, s *site) { families(t, s, "256") },
		"family with a key in use stays":             familyHeld,
		"keys in use get another access list":        relisted,
		"family is imported while its keys are used": familyImported,
	} {
		t.Run(name, func(t *testing.T) {
			body(t, real(t, server.Addr, "/"+strings.ReplaceAll(name, " ", "-")))
		})
	}
}

// axe is a dialer that breaks a connection of a program at one of its writes: before it is sent, or when its answer arrives. The servers
// are told nothing, as when the machine loses its power.
type axe struct {
	at       func(n int64, frame []byte) bool // says at which, of how many so far
	executed bool                             // break it when the answer arrives
	until    func()                           // and when this has ended, if it is not nil
	off      bool                             // nothing can be dialled afterwards
	fell     chan struct{}
	writes   atomic.Int64
	struck   atomic.Bool
}

func (a *axe) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if a.off && a.struck.Load() {
		return nil, errors.New("the machine is off")
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return &axedConn{Conn: c, axe: a}, err
}

type axedConn struct {
	net.Conn
	*axe
	greeted bool
	last    atomic.Bool // nothing is read any more
}

// Write counts the requests that write. A frame is a length, an xid and an opcode; the first of a connection is the handshake.
func (c *axedConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) >= 12; {
		frame := rest[:min(len(rest), 4+int(binary.BigEndian.Uint32(rest)))]
		if c.greeted && writeCodes[binary.BigEndian.Uint32(rest[8:12])] && c.at(c.writes.Add(1), frame) && c.struck.CompareAndSwap(false, true) {
			if !c.executed {
				_ = c.Close()
				close(c.fell)
				return 0, net.ErrClosed
			}
			c.last.Store(true)
		}
		c.greeted = true
		rest = rest[len(frame):]
	}
	return c.Conn.Write(b)
}

// writeCodes are the opcodes of create, delete, setData, setACL, multi, create2.
var writeCodes = map[uint32]bool{1: true, 2: true, 5: true, 7: true, 14: true, 15: true}

func (c *axedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.last.CompareAndSwap(true, false) {
		if c.until != nil {
			c.until()
		}
		_ = c.Close()
		close(c.fell)
		return 0, net.ErrClosed
	}
	return n, err
}

func lostReply(t *testing.T, s *site) {
	watcher := s.provisioner()
	s.apply(watcher, s.shop())
	session, at := s.session(watcher), record.IndexPath(s.root, stack)
	before, err := read.HeadAt(t.Context(), session, at)
	require.NoError(t, err)
	a := &axe{executed: true, fell: make(chan struct{})}
	a.at = func(_ int64, frame []byte) bool { return bytes.Contains(frame, []byte(`"description":"lost"`)) }
	a.until = func() { // the transaction is there for all to see, so that only its reply is lost
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			now, err := read.HeadAt(ctx, session, at)
			if err != nil || now.Index.Apply != before.Index.Apply {
				return
			}
		}
	}
	s.config.Dialer = a.dial
	c := s.provisioner()
	var ev events
	x := executor(c, ev.add)
	_, err = x.Run(t.Context(), s.plan(c, s.shop(set("description", "lost"))))
	require.NoError(t, err)
	require.True(t, find[event.Committed](ev).Resolved)
	require.False(t, s.plan(c, s.shop(set("description", "lost"))).HasChanges())
}
