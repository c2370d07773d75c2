//go:build linux

package interop_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// languages returns a program of each language from the mutex's matrix, all with Curator's names.
func languages() []party { return slices.Clone(mutexes.parties[:3]) }

// fresh provisions a lock with Curator's names.
func (l *realLab) fresh(t *testing.T, g grid) (context.Context, string) {
	t.Helper()
	return hostile.Within(t, hostile.Patience), l.provision(t, g.declare(kind.WireCurator))
}

// leavers lets the middle one of three in line give up. The last one must not take that for its turn, nor sleep on behind a node that is
// gone.
func (l *realLab) leavers(t *testing.T) {
	for _, holder := range languages() {
		for _, middle := range languages() {
			for _, last := range languages() {
				t.Run(fmt.Sprintf("holder=%s,leaver=%s,last=%s", holder.name, middle.name, last.name), func(t *testing.T) {
					path := l.provision(t, mutexes.declare(kind.WireCurator))
					l.leave(t, path, holder.enter(t, l, path), middle.enter(t, l, path), last.enter(t, l, path))
				})
			}
		}
	}
}

func (l *realLab) leave(t *testing.T, path string, holder, middle, last *entry) {
	ctx := hostile.Within(t, hostile.Patience)
	require.NoError(t, holder.acquire(ctx))
	first := l.awaitContenders(t, path, 1)[0]
	left := l.request(ctx, middle)
	second := l.awaitContenders(t, path, 2)[1]
	l.awaitWatch(t, middle.session, kind.JoinPath(path, first))
	granted := l.request(ctx, last)
	l.awaitContenders(t, path, 3)
	l.awaitWatch(t, last.session, kind.JoinPath(path, second))

	middle.cancel()
	require.Error(t, <-left)
	l.awaitWatch(t, last.session, kind.JoinPath(path, first))
	stillWaits(t, ctx, last, granted)
	require.NotContains(t, l.awaitContenders(t, path, 2), second)
	require.NoError(t, holder.release(ctx))
	require.NoError(t, <-granted)
	require.NoError(t, last.release(ctx))
	l.awaitContenders(t, path, 0)
}

// seen checks what each library says about a queue in which all three stand.
func (l *realLab) seen(t *testing.T) {
	ctx, path := l.fresh(t, elections)
	line := []*entry{elections.parties[0].enter(t, l, path), elections.parties[1].enter(t, l, path), elections.parties[2].enter(t, l, path)}
	granted := make([]<-chan error, len(line))
	for i, e := range line {
		granted[i] = l.request(ctx, e)
		l.awaitContenders(t, path, i+1)
	}
	require.NoError(t, <-granted[0])

	told, err := line[1].ask(ctx, "participants")
	require.NoError(t, err)
	require.Equal(t, "*go java python", told, "Curator's LeaderLatch.getParticipants, the leader starred")
	told, err = line[2].ask(ctx, "participants")
	require.NoError(t, err)
	require.Equal(t, "go java python", told, "kazoo's Election.contenders")
	in, err := inspect.Lock(ctx, line[0].client, path)
	require.NoError(t, err)
	require.Equal(t, kind.Election, in.Kind)
	require.Equal(t, "go", ids(in.Holders))
	require.Equal(t, "java python", ids(in.Waiters))
	for i, e := range line {
		require.Equal(t, e.session, fmt.Sprintf("0x%x", append(in.Holders, in.Waiters...)[i].Session))
	}
	require.Empty(t, in.Junk)
	for i, e := range line {
		if i > 0 {
			require.NoError(t, <-granted[i])
		}
		require.NoError(t, e.release(ctx))
	}
	l.awaitContenders(t, path, 0)
}

// blamed checks that a try of ours names a holder of any language.
func (l *realLab) blamed(t *testing.T) {
	for i, holder := range languages() {
		t.Run(holder.name, func(t *testing.T) {
			ctx, path := l.fresh(t, mutexes)
			h, w := holder.enter(t, l, path), languages()[0].enter(t, l, path)
			require.NoError(t, h.acquire(ctx))
			var held *recipes.HeldError
			require.ErrorAs(t, w.try(ctx), &held)
			require.NoError(t, held.Identify(ctx))
			require.Equal(t, []string{"go", "java", "python"}[i], held.Holder.ID)
			require.Equal(t, h.session, fmt.Sprintf("0x%x", held.Holder.Session))
			require.NoError(t, h.release(ctx))
		})
	}
}

// adopted checks that a Go program that brings the parameters can share a lock that Curator or kazoo made, without a declaration.
func (l *realLab) adopted(t *testing.T) {
	undeclared := ours("go", kind.WireCurator, func(c *recipes.Client, path string) goLock {
		m := c.Mutex(path, recipes.WithParams(kind.Mutex.New()))
		return goLock{m.Lock, m.TryLock}
	})
	for _, maker := range languages()[1:] {
		t.Run(maker.name, func(t *testing.T) {
			ctx := hostile.Within(t, hostile.Patience)
			path := "/adopted/" + maker.name
			h, w := maker.enter(t, l, path), undeclared.enter(t, l, path)
			require.ErrorIs(t, w.acquire(ctx), recipes.ErrNotProvisioned)
			l.meet(t, path, h, w, blocks)
			stranger := languages()[0].enter(t, l, path)
			require.ErrorIs(t, stranger.acquire(ctx), recipes.ErrNotProvisioned)
			l.meet(t, path, w, h, blocks)
		})
	}
}

func ids(all []recipes.Contender) string {
	var names []string
	for _, c := range all {
		names = append(names, c.ID)
	}
	return strings.Join(names, " ")
}

// revocations checks Curator's way of asking for a lock back, in both directions.
func (l *realLab) revocations(t *testing.T) {
	t.Run("Curator asks Go", func(t *testing.T) {
		ctx, path := l.fresh(t, mutexes)
		holder := languages()[0].enter(t, l, path)
		require.NoError(t, holder.acquire(ctx))
		_, err := l.java.call(ctx, "revoke", holder.lease.Node())
		require.NoError(t, err)
		select {
		case <-holder.lease.Context().Done():
		case <-ctx.Done():
			t.Fatal("the holder was not told")
		}
		require.ErrorIs(t, context.Cause(holder.lease.Context()), recipes.ErrRevoked)
		waiter := languages()[1].enter(t, l, path)
		require.True(t, isHeld(waiter.try(ctx)), "asked for is not given back")
		require.NoError(t, holder.release(ctx))
		require.NoError(t, waiter.acquire(ctx))
		require.NoError(t, waiter.release(ctx))
	})
	t.Run("somebody asks Curator", func(t *testing.T) {
		ctx, path := l.fresh(t, mutexes)
		holder, waiter := foreign("curator", java, "revocable").enter(t, l, path), languages()[0].enter(t, l, path)
		require.NoError(t, holder.acquire(ctx))
		node := kind.JoinPath(path, l.contenders(t, path)[0])
		granted := l.request(ctx, waiter)
		l.awaitWatch(t, waiter.session, node)
		_, err := l.admin.Set(node, []byte("__REVOKE__"), -1)
		require.NoError(t, err)
		select {
		case verb := <-l.told(node):
			require.Equal(t, "revoked", verb)
		case <-ctx.Done():
			t.Fatal("Curator's listener was not called")
		}
		// The change of the data woke the waiter, which must go back to sleep.
		l.awaitWatch(t, waiter.session, node)
		stillWaits(t, ctx, waiter, granted)
		require.NoError(t, holder.release(ctx))
		require.NoError(t, <-granted)
		require.NoError(t, waiter.release(ctx))
	})
}

// downgrades lets a writer of ours become a reader while others of all languages wait: readers are admitted, writers are not.
func (l *realLab) downgrades(t *testing.T) {
	reader := func(i int) party { return rwlocks.parties[2*i] }
	writer := func(i int) party { return rwlocks.parties[2*i+1] }
	for i, language := range []string{"go", "curator", "kazoo-subclass"} {
		t.Run("go before a reader and a writer of "+language, func(t *testing.T) {
			ctx, path := l.fresh(t, rwlocks)
			h, r, w := writer(0).enter(t, l, path), reader(i).enter(t, l, path), writer(i).enter(t, l, path)
			require.NoError(t, h.acquire(ctx))
			reads := l.request(ctx, r)
			l.awaitContenders(t, path, 2)
			writes := l.request(ctx, w)
			second := l.awaitContenders(t, path, 3)[1]
			l.awaitWatch(t, w.session, kind.JoinPath(path, second))
			read, err := h.client.RWMutex(path).Downgrade(ctx, h.lease)
			require.NoError(t, err)
			require.NoError(t, <-reads, "beside the one who downgraded")
			require.NoError(t, read.Verify(ctx))
			stillWaits(t, ctx, w, writes)

			require.NoError(t, r.release(ctx))
			l.awaitWatch(t, w.session, read.Node())
			stillWaits(t, ctx, w, writes)
			require.NoError(t, read.Unlock(ctx))
			require.NoError(t, <-writes)
			require.NoError(t, w.release(ctx))
			l.awaitContenders(t, path, 0)
		})
	}
	// Curator up to 5.4 queues its new reader at the end. So the rules admit a writer in between, although a reader holds the lock. Our
	// side cannot see that: Java programs with this Curator must not downgrade on a shared lock.
	t.Run("Curator 5.4 lets a writer in", func(t *testing.T) {
		ctx, path := l.fresh(t, rwlocks)
		h, w := writer(1).enter(t, l, path), writer(0).enter(t, l, path)
		require.NoError(t, h.acquire(ctx))
		writes := l.request(ctx, w)
		l.awaitContenders(t, path, 2)
		_, err := h.ask(ctx, "downgrade")
		require.NoError(t, err)
		require.NoError(t, <-writes, "Curator is newer than 5.4: say so in testdata/interop/README.md")
		require.NoError(t, w.release(ctx))
		require.NoError(t, h.release(ctx))
		l.awaitContenders(t, path, 0)
	})
}

// access checks that all three languages work on a lock node that grants one identity only the rights to create, read and delete
// contenders.
func (l *realLab) access(t *testing.T) {
	const user, password = "interop", "open sesame"
	credentials := user + ":" + strings.ReplaceAll(password, " ", "-")
	acl := zk.DigestACL(zk.PermCreate|zk.PermRead|zk.PermDelete, user, strings.ReplaceAll(password, " ", "-"))
	for _, p := range []*peer{l.java, l.python} {
		_, err := p.call(t.Context(), "auth", "digest", credentials)
		require.NoError(t, err)
	}
	require.NoError(t, l.admin.AddAuth("digest", []byte(credentials)))
	path := l.provision(t, &kind.MutexParams{Common: kind.Common{Wire: kind.WireCurator}},
		kind.ACL{Scheme: acl[0].Scheme, ID: acl[0].ID, Perms: kind.PermAll})
	_, err := l.admin.SetACL(path, acl, -1)
	require.NoError(t, err)

	stranger := languages()[0].enter(t, l, path)
	require.ErrorIs(t, stranger.acquire(t.Context()), zk.ErrNoAuth)
	authed := languages()
	authed[0] = ours("go", kind.WireCurator, goMutex, recipes.Auth{Scheme: "digest", Credentials: recipes.Secret(credentials)})
	l.queue(t, path, append(authed, authed...), []int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5})
}

// killed kills a process that holds one lock and waits for another. The others move up when the server has expired its session, and not
// before.
func (l *realLab) killed(t *testing.T) {
	deaf := func(string) {}
	for _, dying := range []struct {
		name   string
		start  func(*testing.T, string, time.Duration, func(string)) *peer
		recipe string
	}{{"curator", l.startJava, "mutex"}, {"kazoo-subclass", l.startPython, "curator-lock"}} {
		t.Run(dying.name, func(t *testing.T) {
			t.Parallel() // each spends most of its time waiting for a session to expire
			ctx := hostile.Within(t, hostile.Patience)
			p := dying.start(t, "dying", doomedSession, deaf)
			party := foreign(dying.name, func(*realLab) *peer { return p }, dying.recipe)
			var moves []func()
			for _, next := range languages() {
				held, asked := l.provision(t, mutexes.declare(kind.WireCurator)), l.provision(t, mutexes.declare(kind.WireCurator))
				h := party.enter(t, l, held)
				require.NoError(t, h.acquire(ctx))
				grave := kind.JoinPath(held, l.contenders(t, held)[0])
				heir := next.enter(t, l, held)
				granted := l.request(ctx, heir)
				l.awaitWatch(t, heir.session, grave)

				first := languages()[0].enter(t, l, asked)
				require.NoError(t, first.acquire(ctx))
				middle := party.enter(t, l, asked)
				l.request(ctx, middle)
				gap := kind.JoinPath(asked, l.awaitContenders(t, asked, 2)[1])
				last := next.enter(t, l, asked)
				movesUp := l.request(ctx, last)
				l.awaitWatch(t, last.session, gap)

				moves = append(moves, func() {
					require.NoError(t, <-granted)
					there, _, err := l.admin.Exists(grave)
					require.NoError(t, err)
					require.False(t, there, "granted over a contender that still stands")
					require.NoError(t, heir.release(ctx))
					l.awaitWatch(t, last.session, first.lease.Node())
					stillWaits(t, ctx, last, movesUp)
					require.NoError(t, first.release(ctx))
					require.NoError(t, <-movesUp)
					require.NoError(t, last.release(ctx))
				})
			}
			p.kill()
			for _, move := range moves {
				move()
			}
		})
	}
}

// twoUsers configures ZooKeeper's DigestLoginModule for a server and for a client.
const twoUsers = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_curator="c c" user_jörg="ö,\"o";
};
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="curator" password="c c";
};
`

// Curator logs in by JAAS, and we without it, to a server that serves no client without a login. Each waits for the other.
func TestCuratorWithJAASAndWeWaitForEachOther(t *testing.T) {
	t.Parallel()
	jaas := filepath.Join(t.TempDir(), "jaas")
	require.NoError(t, os.WriteFile(jaas, []byte(twoUsers), 0o600))
	l := &realLab{t: t, events: map[string]chan string{}, jvm: []string{"-Djava.security.auth.login.config=" + jaas},
		sasl: recipes.DigestMD5("jörg", func() (recipes.Secret, error) { return `ö,"o`, nil })}
	l.zk = realzk.Start(t, realzk.Options{TickTime: 200 * time.Millisecond, Config: map[string]string{"maxSessionTimeout": "60000"}, Properties: map[string]string{
		"zookeeper.forceSync": "no", "java.security.auth.login.config": jaas, "zookeeper.sessionRequireClientSASLAuth": "true",
		"zookeeper.authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}})
	var err error
	l.classes, err = javaProgram()
	require.NoError(t, err)
	l.java = l.startJava(t, "java", livingSession, l.hear)
	ctx := hostile.Within(t, hostile.Patience)
	// Curator reports a connection before its login has ended. ZooKeeper 3.8.0 may refuse one of two users that log in at once.
	for ; !strings.Contains(l.zk.Log(), "authenticationID=curator"); time.Sleep(pollEvery) {
		require.NoError(t, ctx.Err())
	}
	eye, err := l.goClient(t, "eye", nil).Session(ctx)
	require.NoError(t, err)
	both := []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "curator"}, {Perms: zk.PermAll, Scheme: "sasl", ID: "jörg"}}
	declaration, err := (&kind.Payload{Params: mutexes.declare(kind.WireCurator), Owner: kind.Owner{Stack: "interop", Addr: "test"}}).Encode()
	require.NoError(t, err)
	for i, pair := range [][2]int{{0, 1}, {1, 0}} { // 0 is ours, 1 is Curator's
		path := fmt.Sprintf("/lock%d", i)
		_, err = eye.Create(ctx, path, declaration, 0, both)
		require.NoError(t, err)
		holder, waiter := mutexes.parties[pair[0]].enter(t, l, path), mutexes.parties[pair[1]].enter(t, l, path)
		require.NoError(t, holder.acquire(ctx))
		granted := l.request(ctx, waiter)
		for n := 0; n < 2; time.Sleep(pollEvery) {
			names, _, err := eye.Children(ctx, path)
			require.NoError(t, err)
			n = len(names)
		}
		stillWaits(t, ctx, waiter, granted)
		require.NoError(t, holder.release(ctx))
		require.NoError(t, <-granted)
		require.NoError(t, waiter.release(ctx))
	}
	for _, who := range []string{"curator", "jörg"} {
		require.Contains(t, l.zk.Log(), "authenticationID="+who)
	}
}
