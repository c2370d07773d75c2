package recipes_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// markACL is the access list of what a move leaves behind: nobody creates anything there.
var markACL = zk.WorldACL(zk.PermRead | zk.PermDelete | zk.PermAdmin)

// mover moves locks as an apply does.
type mover struct {
	srv    *zktest.Server
	client *recipes.Client
}

// payload is the declaration of a lock of the laboratory.
func payloadOf(p kind.Params, change ...func(*kind.Payload)) *kind.Payload {
	payload := &kind.Payload{Params: p, Owner: kind.Owner{Stack: "test", Addr: "x"}}
	for _, c := range change {
		c(payload)
	}
	return payload
}

func movedTo(to string) func(*kind.Payload) {
	return func(p *kind.Payload) { p.State, p.MovedTo = kind.StateMoved, to }
}

func goingTo(to string) func(*kind.Payload) {
	return func(p *kind.Payload) { p.State, p.MovedTo = kind.StateDraining, to }
}

// move is the one transaction of a move. It fails with zk.ErrNotEmpty while anybody is in the queue.
func (m mover) move(ctx context.Context, p kind.Params, from, to string) error {
	s, err := m.client.Session(ctx)
	if err != nil {
		return err
	}
	var ops []any
	remove := func(path string) {
		if n, there := m.srv.Get(path); there {
			for _, part := range p.Kind().Children {
				if slices.Contains(n.Children, part) {
					ops = append(ops, &zk.DeleteRequest{Path: kind.JoinPath(path, part), Version: -1})
				}
			}
			ops = append(ops, &zk.DeleteRequest{Path: path, Version: -1})
		}
	}
	create := func(path string, acl []zk.ACL, payload *kind.Payload) {
		data, encoding := payload.Encode()
		if encoding != nil {
			panic(encoding)
		}
		ops = append(ops, &zk.CreateRequest{Path: path, Data: data, Acl: acl})
	}
	remove(from)
	remove(to)
	create(from, markACL, payloadOf(p, movedTo(to)))
	create(to, openACL, payloadOf(p))
	for _, part := range p.Kind().Children {
		ops = append(ops, &zk.CreateRequest{Path: kind.JoinPath(to, part), Acl: openACL})
	}
	_, err = s.Multi(ctx, ops...)
	return err
}

// mover dials the client that moves locks.
func (l *lab) mover() mover { return mover{l.srv, l.client("apply")} }

// moves moves an idle lock.
func (l *lab) moves(m mover, p kind.Params, from, to string) {
	l.t.Helper()
	require.NoError(l.t, m.move(l.t.Context(), p, from, to))
}

// params are those with which everyKind declares a recipe's lock.
func (way recipeWay) params() kind.Params {
	p := way.kind.New()
	if permits, ok := p.(*kind.SemaphoreParams); ok {
		permits.Permits = 3
	}
	return p
}

// Each pushed out the declaration of the next one, which was read again at once: hundreds of reads a second, for as long as the move took.
func TestWaitingForMoreLocksToMoveThanDeclarationsAreKeptIsQuiet(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c")
		c.KeepDeclarations(4)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range 8 {
			path := fmt.Sprintf("/m%d", i)
			l.declare(path, kind.Mutex.New(), goingTo(path+"-new"))
			waiting.Go(func() { _, _ = c.Mutex(path).Lock(ctx) })
		}
		time.Sleep(time.Minute)
		l.srv.ResetCounts()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, l.srv.Counts().ByOp["getData"], 8*5, "one for each session timeout")
		cancel()
		waiting.Wait()
		require.Empty(t, c.Pinned())
	})
}

// The mark from where a handle came was pushed out while the next one was read, so it counted as changed: the way was walked again, for ever.
func TestACircleOfMarksIsAnErrorHoweverFewDeclarationsAreKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/m0", kind.Mutex.New(), movedTo("/m1"))
		l.declare("/m1", kind.Mutex.New(), movedTo("/m0"))
		c := l.client("c")
		c.KeepDeclarations(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Mutex("/m0").Lock(ctx)
		require.ErrorIs(t, err, recipes.ErrMoved)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		_, _, err = c.Election("/m0").Leader(ctx)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, c.Pinned())
	})
}
