package apply_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/evict"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// evicting is a stack of two mutexes and a semaphore.
func evicting(t testing.TB) (*site, *recipes.Client, *plan.Tree) {
	s, c := provisioned(t)
	pool := declare("/pool", kind.Semaphore)
	set("permits", 5)(pool)
	tree := s.tree(declare("/a", kind.Mutex), declare("/b", kind.Mutex), pool)
	s.apply(c, tree)
	return s, c, tree
}

func (s *site) acquisitions(c *recipes.Client, path string) (*inspect.Report, []evict.Acquisition) {
	s.t.Helper()
	in, err := inspect.Lock(s.t.Context(), c, path)
	require.NoError(s.t, err)
	return in, evict.Acquisitions(in)
}

// complete fills in the field Others of an acquisition of two locks: the node in the second lock.
func (s *site) complete(one *evict.Acquisition) {
	s.t.Helper()
	reader := *s
	reader.config.ReadOnly = true
	snap, err := scan.Look(s.t.Context(), reader.provisioner(), scan.Options{Prefix: "/"})
	require.NoError(s.t, err)
	one.Set(snap)
	require.Len(s.t, one.Others, 1)
}

// breaks ends an acquisition.
func (s *site) breaks(c *recipes.Client, in *inspect.Report, one evict.Acquisition) *evict.Evicted {
	s.t.Helper()
	done, err := evict.Break(s.t.Context(), c, history.Author{}, in, one)
	require.NoError(s.t, err)
	return done
}

func (s *site) history(c *recipes.Client) []history.Entry {
	s.t.Helper()
	all, err := history.Read(s.t.Context(), s.session(c), s.root, stack)
	require.NoError(s.t, err)
	return all
}

// Break deletes all nodes of a set in one transaction, which also notes it in the history. Waiters keep their places.
func TestBreakTakesAWholeSetAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, _ := evicting(t)
		holder, waiter := s.dial("worker:w"), s.dial("worker:w")
		lease := s.takes(holder.MultiLock(holder.Mutex(s.root+"/a"), holder.Mutex(s.root+"/b")).Lock)
		next := make(chan *recipes.Lease)
		go func() {
			l, err := waiter.Mutex(s.root + "/b").Lock(t.Context())
			assert.NoError(t, err)
			next <- l
		}()
		synctest.Wait()
		in, all := s.acquisitions(c, s.root+"/a")
		require.Len(t, all, 1)
		one := all[0]
		s.complete(&one)
		require.Equal(t, s.root+"/b", kind.ParentPath(one.Others[0].Path))
		done, err := evict.Break(t.Context(), c, history.Author{Who: "ann@desk", Message: "stuck"}, in, one)
		require.NoError(t, err)
		require.Len(t, done.Nodes, 2)
		require.Equal(t, record.HistoryPath(s.root, stack), done.History)
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), recipes.ErrLost)
		require.Greater(t, (<-next).Token(), one.Token)
		e := s.history(c)[0]
		require.Equal(t, []any{"break", "ann@desk", "stuck", s.root + "/a", one.Token}, []any{e.Operation, e.Who, e.Message, e.Lock, e.Token})
		require.Equal(t, []string{s.root + "/b"}, e.Others)
		// A second break finds nothing, although other clients hold the locks now.
		done = s.breaks(c, in, one)
		require.True(t, done.Gone())
		require.Len(t, s.history(c), 2)
	})
}

func TestAnAcquisitionHasAllPermitsOfOneTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, _ := evicting(t)
		holder := s.dial("worker:w")
		for _, n := range []int{2, 1} {
			_, err := holder.Semaphore(s.root+"/pool").Acquire(t.Context(), n)
			require.NoError(t, err)
		}
		waiting := s.dial("worker:w")
		go func() { _, _ = waiting.Semaphore(s.root+"/pool").Acquire(t.Context(), 3) }()
		synctest.Wait()
		in, all := s.acquisitions(c, s.root+"/pool")
		require.Len(t, all, 3)
		require.Len(t, all[0].Nodes, 2)
		require.Len(t, all[1].Nodes, 1)
		require.True(t, all[2].Queued)
		done := s.breaks(c, in, all[2])
		require.NotEmpty(t, done.Nodes)
		done = s.breaks(c, in, all[0])
		require.Len(t, done.Nodes, 2)
		synctest.Wait()
		_, all = s.acquisitions(c, s.root+"/pool")
		require.False(t, all[0].Queued)
		require.Equal(t, []int{1}, []int{len(all[0].Nodes)})
	})
}

// If a client writes its node or another program writes the history, Break only tries again. An apply sends its transaction again.
func TestNothingIsLostToWritesInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, tree := evicting(t)
		holder := s.dial("worker:w")
		lease := s.takes(holder.Mutex(s.root + "/a").Lock)
		in, all := s.acquisitions(c, s.root+"/a")
		other, times := s.session(s.provisioner()), 0
		// Before each of the first three transactions with the history, another session writes the history or, once, the client's node.
		s.server.Inject(func(r zktest.Request) bool {
			if r.Op != "multi" || times == 3 || !strings.Contains(fmt.Sprint(r.Paths), record.HistoryPath(s.root, stack)) {
				return false
			}
			times++
			paths := []string{record.HistoryPath(s.root, stack)}
			if times == 2 {
				paths = []string{lease.Node()}
			}
			for _, path := range paths {
				data, _ := s.server.Get(path)
				go func() { _, _ = other.Set(context.WithoutCancel(t.Context()), path, data.Data, -1) }()
			}
			return true
		}, zktest.Delay(100*time.Millisecond))
		done := s.breaks(c, in, all[0])
		require.Len(t, done.Nodes, 1)
		require.Equal(t, 3, times)
		require.Len(t, s.history(c), 2)
		times = 2
		set("permits", 6)(tree.Nodes[2])
		s.apply(c, tree)
		require.Equal(t, 3, times)
		require.Len(t, s.history(c), 3)
	})
}

// Each try is a transaction in the servers' log. A client that kept writing its node made an eviction retry without a pause.
func TestAnEvictionPausesBetweenItsTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, _ := evicting(t)
		_ = s.locks("worker:w", s.root+"/a")
		in, all := s.acquisitions(c, s.root+"/a")
		tries := 0
		s.server.Inject(func(r zktest.Request) bool {
			if r.Op != "multi" || !strings.Contains(fmt.Sprint(r.Paths), record.HistoryPath(s.root, stack)) {
				return false
			}
			tries++
			return tries < 1000
		}, zktest.Fail(zktest.CodeNoNode))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := evict.Break(ctx, c, history.Author{}, in, all[0])
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, tries, 210)
	})
}

// If the reply and the session are lost, Break finds out in its next session what was done. If the request is lost and the client leaves by
// itself, nothing was broken. Formerly, Break said that the acquisition was broken, and that the history has it.
func TestBreakSaysWhatItDidWithoutAnAnswer(t *testing.T) {
	for name, arrives := range map[string]bool{"answer lost": true, "request lost": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c, _ := evicting(t)
				holder := s.dial("worker:w")
				_ = s.takes(holder.Mutex(s.root + "/a").Lock)
				in, all := s.acquisitions(c, s.root+"/a")
				id, ends, fault := s.session(c).ID(), s.session(holder).ID(), zktest.CutBefore
				if arrives {
					ends, fault = id, zktest.DropReply
				}
				lost := s.server.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && r.Session == id }), fault)
				go func() {
					<-lost.Hit()
					s.server.Expire(ends)
				}()
				done := s.breaks(c, in, all[0])
				require.Equal(t, !arrives, done.Gone(), "%v", done)
				said := []string{"apply"}
				if arrives {
					require.Len(t, done.Nodes, 1)
					said = []string{"break", "apply"}
				}
				for i, e := range s.history(c) {
					require.Equal(t, said[i], e.Operation)
				}
				require.Len(t, s.history(c), len(said))
			})
		})
	}
}

// For a history that cannot be read, the output was "Nothing was applied yet".
func TestADamagedHistoryIsNotAnEmptyOne(t *testing.T) {
	s, c, _ := evicting(t)
	require.NoError(t, s.server.Set(record.HistoryPath(s.root, stack), []byte("[{")))
	_, err := history.Read(t.Context(), s.session(c), s.root, stack)
	require.ErrorContains(t, err, "is not a history")
}

// The history keeps fifty entries of at most a kibibyte each, whatever their texts.
func TestTheHistoryIsBounded(t *testing.T) {
	s, c, tree := evicting(t)
	x := apply.New(c, apply.Options{Author: history.Author{Who: strings.Repeat("ü", 700), Message: strings.Repeat(`"\`, 150), CI: &history.CIRun{System: "x", Run: strings.Repeat("/", 3000)}}})
	for i := range 60 {
		set("permits", 6+i)(tree.Nodes[2])
		_, err := x.Apply(t.Context(), s.plan(c, tree))
		require.NoError(t, err)
	}
	data, _ := s.server.Get(record.HistoryPath(s.root, stack))
	require.LessOrEqual(t, len(data.Data), 50*(1<<10+2)+2)
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal(data.Data, &raw))
	for _, one := range raw {
		require.LessOrEqual(t, len(one), 1<<10)
	}
	all := s.history(c)
	require.Len(t, all, 50)
	require.True(t, all[0].At.After(all[49].At))
	// An element that is longer than any entry is dropped, whichever program wrote it, and stops no apply.
	require.NoError(t, s.server.Set(record.HistoryPath(s.root, stack), fmt.Appendf(nil, `[{"id": "x"}, "%0900000d", 7]`, 0)))
	set("permits", 5)(tree.Nodes[2])
	s.apply(c, tree)
	data, _ = s.server.Get(record.HistoryPath(s.root, stack))
	require.NoError(t, json.Unmarshal(data.Data, &raw))
	require.Len(t, raw, 3)
	before := s.server.Dump()
	_, err := x.Apply(t.Context(), s.plan(c, tree))
	require.NoError(t, err)
	require.Equal(t, before, s.server.Dump(), "an apply without changes writes nothing")
	// A history that we may not write does not stop an apply, and the event says so.
	s.setByHand(c, record.HistoryPath(s.root, stack), kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead | kind.PermAdmin})
	var ev events
	set("permits", 4)(tree.Nodes[2])
	_, err = apply.New(c, apply.Options{Events: ev.add}).Apply(t.Context(), s.plan(c, tree))
	require.NoError(t, err)
	require.Nil(t, find[event.Recorded](ev).Entry)
}

// An apply of several transactions has one entry, even if another program writes the history between them.
func TestAnApplyIsOneEntry(t *testing.T) {
	s, c := provisioned(t)
	x := executor(c, func(e event.Event) {
		if done, ok := e.(event.Committed); ok && done.Batch == 1 {
			require.True(t, s.history(c)[0].Unfinished)
			data, _ := s.server.Get(record.HistoryPath(s.root, stack))
			require.NoError(t, s.server.Set(record.HistoryPath(s.root, stack), append([]byte(`[{"operation": "break"},`), data.Data[1:]...)))
		}
	})
	p := s.plan(c, s.tree(bulk(44, 280, "x")...))
	require.Len(t, p.Batches, 2)
	s.succeeds(x, p)
	all := s.history(c)
	require.Len(t, all, 2)
	require.Equal(t, []any{"apply", false, "break"}, []any{all[0].Operation, all[0].Unfinished, all[1].Operation})
}

// Two threads of one session wait, as in programs of Curator. Their places counted as one acquisition, so a break of one removed both.
func TestTwoWaitsOfOneSessionAreTwoAcquisitions(t *testing.T) {
	s, c, _ := evicting(t)
	_, err := s.dial("worker:w").Semaphore(s.root+"/pool").Acquire(t.Context(), 5)
	require.NoError(t, err)
	session, nodes := s.session(s.dial("worker:w")), []string{}
	for _, at := range []string{"/pool/locks/" + mutexName, "/pool/locks/" + mutexName, "/pool/leases/_c_01234567-89ab-cdef-0123-456789abcdef-lease-"} {
		node, err := session.Create(t.Context(), s.root+at, []byte{}, zk.FlagEphemeral|zk.FlagSequence, wire.ToZK(kind.List{crew}))
		require.NoError(t, err)
		nodes = append(nodes, node)
	}
	in, all := s.acquisitions(c, s.root+"/pool")
	require.Len(t, all, 3)
	done := s.breaks(c, in, all[1])
	require.ElementsMatch(t, []string{nodes[0], nodes[2]}, done.Nodes)
	_, there := s.server.Get(nodes[1])
	require.True(t, there)
}
