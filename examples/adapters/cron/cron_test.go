package cron_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/adapters/cron"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/recipetest"
)

const (
	jobs   = "/locks/jobs"
	leader = "/locks/leader"
)

func start(t *testing.T) *recipetest.Cluster {
	return recipetest.Start(t, recipetest.Lock(jobs, &kind.KeyedParams{Of: "mutex"}), recipetest.Lock(leader, &kind.ElectionParams{}))
}

// ends is a gocron.Monitor of one job: how it ended, or that it was skipped.
type ends chan gocron.JobStatus

func (e ends) IncrementJob(_ uuid.UUID, _ string, _ []string, status gocron.JobStatus) { e <- status }
func (ends) RecordJobTiming(time.Time, time.Time, uuid.UUID, string, []string)         {}

// schedule runs one job now.
func schedule(t *testing.T, option gocron.SchedulerOption, work func()) <-chan gocron.JobStatus {
	ended := make(ends, 1)
	s, err := gocron.NewScheduler(option, gocron.WithMonitor(ended))
	require.NoError(t, err)
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(work), gocron.WithName("report"))
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return ended
}

// The job of a name runs in one process; in another one it is skipped meanwhile.
func TestAJobRunsInOneProcessAtATime(t *testing.T) {
	c := start(t)
	locker := func(id string) gocron.SchedulerOption {
		return gocron.WithDistributedLocker(cron.Locker{Jobs: c.Client(id).Keyed(jobs)})
	}
	begun, end := make(chan struct{}), make(chan struct{})
	first := schedule(t, locker("a"), func() { close(begun); <-end })
	<-begun
	require.Equal(t, gocron.Skip, <-schedule(t, locker("b"), func() { t.Error("runs beside the other one") }))

	_, err := cron.Locker{Jobs: c.Client("c").Keyed(jobs)}.Lock(t.Context(), "report")
	var held *recipes.HeldError
	require.ErrorAs(t, err, &held)
	lock, err := cron.Locker{Jobs: c.Client("c").Keyed(jobs)}.Lock(t.Context(), "another job")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))

	close(end)
	require.Equal(t, gocron.Success, <-first)
	mutex := c.Client("d").Keyed(jobs)
	l, err := mutex.Lock(t.Context(), "report") // when the scheduler has released it
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

// The leader's scheduler runs jobs, another one does not; when the leader's session ends, that is the other way round.
func TestTheLeaderRunsTheJobs(t *testing.T) {
	c := start(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	stand := func(client *recipes.Client) *cron.Elector {
		e := new(cron.Elector)
		require.ErrorIs(t, e.IsLeader(ctx), cron.ErrNotLeader)
		go func() { ended <- e.Run(ctx, client.Election(leader)) }()
		return e
	}
	leads := func(e *cron.Elector) {
		require.Eventually(t, func() bool { return e.IsLeader(ctx) == nil }, 30*time.Second, time.Millisecond)
	}
	one := c.Client("a")
	a := stand(one)
	leads(a)
	b := stand(c.Client("b"))
	require.Equal(t, gocron.Success, <-schedule(t, gocron.WithDistributedElector(a), func() {}))
	require.Equal(t, gocron.Skip, <-schedule(t, gocron.WithDistributedElector(b), func() { t.Error("does not lead") }))

	require.Eventually(t, func() bool { n, _ := c.Server.Get(leader); return len(n.Children) == 2 }, 30*time.Second, time.Millisecond)
	c.Expire(one)
	leads(b)
	var err error // until a hears of it: the server ended its session, no clock did
	require.Eventually(t, func() bool { err = a.IsLeader(ctx); return err != nil }, 30*time.Second, time.Millisecond)
	require.ErrorIs(t, err, cron.ErrNotLeader)
	require.ErrorIs(t, err, recipes.ErrLost)

	stop()
	for range 2 {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}
