//go:build linux

package recipes_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// born is a node that was created in the parent; number is -1 where it has none.
type born struct {
	czxid  int64
	place  int // in its transaction
	number int
}

// The fact that numbers rests on: a sequential node's number is the count of the nodes that were created before it in the same
// parent, whatever was deleted, and whatever failed.
func TestRealNumbersCountWhatWasCreated(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{})
	var mu sync.Mutex
	var all []born
	var workers sync.WaitGroup
	const rounds = 40
	for i := range 8 {
		c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: realTimeout, ConnectTimeout: hostile.Patience})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		if i == 0 {
			mustCreate(t, s, "/q", 0)
		}
		create := func(name string, flags int32) *zk.CreateRequest {
			return &zk.CreateRequest{Path: "/q/" + name, Acl: openACL, Flags: flags}
		}
		made := func(zxid int64, place int, path string, numbered bool) {
			b := born{zxid, place, -1}
			if numbered {
				var err error
				if b.number, err = strconv.Atoi(path[len(path)-10:]); err != nil {
					t.Error(err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, b)
		}
		workers.Go(func() {
			for n := range rounds {
				own := fmt.Sprintf("%d-%d", i, n)
				one := s.CreateAndList(t.Context(), create(own+"-", zk.FlagEphemeral|zk.FlagSequence))
				plain := s.CreateAndList(t.Context(), create(own, 0))
				// Of a transaction that fails nothing counts, wherever it fails.
				failed := s.MultiAndList(t.Context(), []any{create(own+"x-", zk.FlagSequence), create(own, 0)})
				missing := s.MultiAndList(t.Context(), []any{create(own+"y", 0), create(own+"z-", zk.FlagSequence), &zk.CheckVersionRequest{Path: "/none"}})
				if one.Err != nil || plain.Err != nil || failed.Err == nil || missing.Err == nil {
					t.Error(one.Err, plain.Err, failed.Err, missing.Err)
					return
				}
				// The exchange of a hand-over, and one that creates two.
				both := s.MultiAndList(t.Context(), []any{create(own+"m-", zk.FlagSequence), create(own+"n-", zk.FlagEphemeral|zk.FlagSequence),
					&zk.DeleteRequest{Path: one.Names[0], Version: -1}, &zk.DeleteRequest{Path: "/q/" + own, Version: -1}})
				if both.Err != nil {
					t.Error(both.Err)
					return
				}
				made(one.Zxid, 0, one.Names[0], true)
				made(plain.Zxid, 0, "", false)
				made(both.Zxid, 0, both.Names[0], true)
				made(both.Zxid, 1, both.Names[1], true)
				if err := s.Delete(t.Context(), both.Names[n%2], -1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	require.Len(t, all, 8*rounds*4)
	slices.SortFunc(all, func(a, b born) int {
		if a.czxid != b.czxid {
			return int(a.czxid - b.czxid)
		}
		return a.place - b.place
	})
	for count, b := range all {
		if b.number >= 0 {
			require.Equal(t, count, b.number, "created by transaction %#x", b.czxid)
		}
	}
}
