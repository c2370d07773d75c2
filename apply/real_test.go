//go:build linux

package apply_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// TestRealZooKeeper runs on Apache ZooKeeper what the other tests of this package
// run in memory, each in a root of its own.
func TestRealZooKeeper(t *testing.T) {
	t.Parallel()
	server := realzk.Start(t, realzk.Options{Config: map[string]string{"enforceQuota": "true"}})
	for name, body := range map[string]func(*testing.T, *site){
		"a thousand locks are one transaction":       thousandLocks,
		"hand edit is put back":                      handEdit,
		"saved plan is refused after an edit":        staleSavedPlan,
		"destroy of a held lock is refused":          destroyHeld,
		"destroy removes everything":                 destroyAll,
		"access lists are set after the transaction": accessLists,
		"second applier is told who is at it":        secondApplier,
		"plan made under the lock is not stale":      planUnderLock,
		"appliers at once are serialised or refused": func(t *testing.T, s *site) { manyAppliers(t, s, 10) },
		"lost reply is resolved":                     lostReply,
		"large plan is applied in batches":           batched,
		"contenders are broken by force":             forceBreak,
		"everything at once":                         everything,
		"contender at the last moment is unharmed":   lastMoment,
		"destroy without a record leaves nothing":    destroyBlind,
		"long request that asks changes nothing":     asking,
		"refusal for a quota says so":                quotaRefusal,
		"what would be refused is known before":      checkRefuses,
		"administrators are rotated":                 rotation,
		"reader plans and administrator applies":     readerPlans,
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

func thousandLocks(t *testing.T, s *site) {
	c := s.provisioner()
	nodes := []*plan.Node{declare("/many", kind.Namespace)}
	for i := range 1000 {
		nodes = append(nodes, declare(fmt.Sprintf("/many/lock-%04d", i), kind.Mutex))
	}
	tree := s.tree(nodes...)
	start := time.Now()
	p := s.plan(c, tree)
	planned := time.Now()
	res, err := executor(c).Run(t.Context(), p)
	require.NoError(t, err)
	t.Logf("1,000 locks: planned in %v, applied in %v, %d operations, %d bytes", planned.Sub(start), time.Since(planned), res.Ops, res.Bytes)

	live, err := read.Tree(t.Context(), s.session(c), tree)
	require.NoError(t, err)
	require.Len(t, live.Nodes, 1001)
	for _, n := range live.Nodes {
		require.Equal(t, live.IndexPin.Czxid, n.Live.Czxid, "%s and the record are of one transaction", n.Path)
	}
	start = time.Now()
	p = s.plan(c, tree)
	t.Logf("1,000 locks: planned again in %v", time.Since(start))
	require.False(t, p.HasChanges())
}

// snare is a dialer whose connections break on demand, after a request that
// contains some text was sent and before its reply is read.
type snare struct {
	text  []byte
	armed atomic.Bool
	sent  chan struct{}
	cut   chan struct{}
}

type snaredConn struct {
	net.Conn
	*snare
	caught atomic.Bool
}

func (n *snare) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &snaredConn{Conn: c, snare: n}, nil
}

func (c *snaredConn) Write(b []byte) (int, error) {
	hit := bytes.Contains(b, c.text) && c.armed.CompareAndSwap(true, false)
	if hit {
		c.caught.Store(true)
	}
	n, err := c.Conn.Write(b)
	if hit {
		close(c.sent)
	}
	return n, err
}

func (c *snaredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.caught.Load() {
		<-c.cut
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func lostReply(t *testing.T, s *site) {
	watcher := s.provisioner()
	s.apply(watcher, s.shop())
	n := &snare{text: []byte(`"description":"lost"`), sent: make(chan struct{}), cut: make(chan struct{})}
	s.config.Dialer = n.dial
	c := s.provisioner()
	p := s.plan(c, s.shop(set("description", "lost")))
	n.armed.Store(true)
	session := s.session(watcher)
	before, err := read.HeadAt(t.Context(), session, p.Index.Path)
	require.NoError(t, err)
	go func() {
		<-n.sent
		// Until the transaction is there for all to see, so that only its reply is lost.
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			now, err := read.HeadAt(ctx, session, p.Index.Path)
			if err != nil || now.Index.Apply != before.Index.Apply {
				break
			}
		}
		close(n.cut)
	}()
	var ev events
	x := executor(c)
	x.Events = ev.add
	_, err = x.Run(t.Context(), p)
	require.NoError(t, err)
	require.True(t, find[event.Committed](ev).Resolved)
	require.False(t, s.plan(c, s.shop(set("description", "lost"))).HasChanges())
}
