package recipes_test

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// guest is a program of another library, with a session of its own, that takes locks one by one as Curator or kazoo do.
type guest struct {
	id    string
	s     *recipes.Session
	names int
}

func (l *lab) guest(id string) *guest {
	l.t.Helper()
	s, err := l.client(id).Session(l.t.Context())
	require.NoError(l.t, err)
	return &guest{id: id, s: s}
}

// queue makes a contender; the marker tells whose names it has.
func (g *guest) queue(ctx context.Context, dir, marker string) (string, error) {
	g.names++
	name := fmt.Sprintf("_c_%08x-1111-4111-8111-111111111111%s", g.names, marker)
	if marker == kazooLock {
		name = fmt.Sprintf("%032x%s", g.names, marker)
	}
	return g.s.Create(ctx, kind.JoinPath(dir, name), []byte(g.id), zk.FlagEphemeral|zk.FlagSequence, openACL)
}

const kazooLock = "__lock__"

// first queues, and waits for its turn.
func (g *guest) first(ctx context.Context, dir, marker string) (string, error) {
	node, err := g.queue(ctx, dir, marker)
	if err == nil {
		_, err = awaitTurn(ctx, g.s, node)
	}
	return node, err
}
