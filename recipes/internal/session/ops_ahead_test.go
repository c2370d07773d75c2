package session

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

const aheadLatency = 20 * time.Millisecond

// ten makes ten nodes, and returns reads of the data and the access list of each, and of the stat of one that is not there.
func ten(t *testing.T, srv *zktest.Server) (s *Session, reads Reads) {
	_, s = open(t, srv)
	for i := range 10 {
		path := fmt.Sprint("/", i)
		_, err := s.Create(t.Context(), path, []byte{byte(i)}, 0, openACL)
		require.NoError(t, err)
		reads.Get, reads.GetACL = append(reads.Get, path), append(reads.GetACL, path)
	}
	reads.Exists = []string{"/none"}
	return s, reads
}

func (a *Ahead) mustRead(t *testing.T, path string) {
	t.Helper()
	_, _, err := a.Get(t.Context(), path)
	require.NoError(t, err)
}

func (a *Ahead) askAll(t *testing.T) {
	t.Helper()
	for i := range 10 {
		data, stat, err := a.Get(t.Context(), fmt.Sprint("/", i))
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, data)
		require.EqualValues(t, 1, stat.DataLength)
		acl, _, err := a.GetACL(t.Context(), fmt.Sprint("/", i))
		require.NoError(t, err)
		require.Equal(t, openACL, acl)
	}
	stat, err := a.Exists(t.Context(), "/none")
	require.NoError(t, err)
	require.Nil(t, stat)
}

func TestReadsSentAheadAreOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(aheadLatency))
		s, reads := ten(t, srv)
		srv.ResetCounts()
		began := time.Now()
		a := s.ReadAhead(t.Context(), reads)
		a.askAll(t)
		require.Equal(t, 2*aheadLatency, time.Since(began))
		require.Equal(t, 21, srv.Counts().Total)
	})
}

func TestWhatWasNotSentAheadIsReadWhenItIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		s, reads := ten(t, srv)
		a := s.ReadAhead(t.Context(), reads)
		a.mustRead(t, "/7")
		synctest.Wait() // the server has counted all of them
		srv.ResetCounts()
		for _, path := range []string{"/8", "/3"} {
			a.mustRead(t, path)
		}
		require.Zero(t, srv.Counts().Total, "they may be asked for in any order")
		for _, path := range []string{"/8", "/3"} {
			a.mustRead(t, path)
		}
		_, _, err := a.Get(t.Context(), "none")
		require.ErrorIs(t, err, zk.ErrInvalidPath)
		require.Equal(t, 2, srv.Counts().Total, "an answer is given once")
	})
}

// Each answer that a lost connection takes along is asked for again.
func TestAReadSentAheadWhoseAnswerIsLostIsRepeated(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"cut before": zktest.CutBefore, "cut after": zktest.CutAfter, "reply dropped": zktest.DropReply, "request dropped": zktest.DropRequest,
	} {
		runInBubble(t, name, func(t *testing.T) {
			srv := zktest.Start(t)
			s, reads := ten(t, srv)
			srv.Inject(func(r zktest.Request) bool { return r.Op == "getACL" && r.N == 5 }, fault)
			a := s.ReadAhead(t.Context(), reads)
			a.askAll(t)
			require.Equal(t, 2, a.Stats().Connections)
		})
	}
}

func TestReadAheadWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		s, reads := ten(t, srv)
		cutOff(srv)
		ctx := within(t, time.Second)
		a := s.ReadAhead(ctx, reads)
		_, _, err := a.Get(ctx, "/1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, OutcomeNotSent, OutcomeOf(err))
		srv.RefuseDials(false)
		a.askAll(t)
	})
}
