package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// The timers of three machines fire at the same moment, with the unit's command line and the machines' identity: the job runs on one of
// them. The test dates the declaration back by half a day or more, as if the job had been declared then. The job's slots are half a day
// away from now. So at any hour, the last slot is still within catch_up, and the slot before it is too old.
func TestRunbookNightlyJob(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	onBoth(t, func(t *testing.T, start func() string) {
		const jobs = "jobs-7e1f"
		addr := start()
		r := newRunbook(t, "nightly-job", addr, "", "ZOOKEEPER_USERNAME=ops", "ZOOKEEPER_PASSWORD="+oldPlatform)
		units := filepath.Join(r.dir, "etc/systemd/system")
		require.NoError(t, os.MkdirAll(units, 0o755))
		r.hushed(map[string]string{"JOBS_PASSWORD": jobs, "ops": oldPlatform})
		r.digest("ops", oldPlatform)

		berlin, err := slots.Zone("Europe/Berlin")
		require.NoError(t, err)
		schedule := fmt.Sprintf("0 %d * * *", time.Now().Add(12*time.Hour).In(berlin).Hour())
		times, err := slots.ParseSchedule(schedule, "Europe/Berlin")
		require.NoError(t, err)
		newest := times.Prev(time.Now())
		missed := times.Prev(newest.Add(-time.Hour))
		skipped := times.Prev(missed.Add(-time.Hour))
		next := times.Next(time.Now())
		r.edit = strings.NewReplacer("0 3 * * *", schedule, `catch_up = "6h"`, `catch_up = "26h"`, "$ invoices", "$ true",
			"MISSED", slots.At(missed), "SKIPPED", slots.At(skipped), "NEXT", slots.At(next)).Replace
		ops, err := program(t, addr, "ops", digestAuth("ops", oldPlatform)).Session(t.Context())
		require.NoError(t, err)
		edit := func(node string, change func(data []byte) []byte) {
			data, _, err := ops.Get(t.Context(), node)
			require.NoError(t, err)
			_, err = ops.Set(t.Context(), node, change(data), -1)
			require.NoError(t, err)
		}
		declared := func(at time.Time) {
			edit("/locks/invoice-run", func(data []byte) []byte {
				payload, err := kind.Decode(data)
				require.NoError(t, err)
				payload.Since = at.UnixMilli()
				data, err = payload.Encode()
				require.NoError(t, err)
				return data
			})
			edit("/locks/invoice-run/once-record", func(data []byte) []byte {
				record, err := slots.ParseRecord(data)
				require.NoError(t, err)
				record.Since = at.UnixMilli()
				return record.Encode()
			})
		}
		r.between = func(step int) {
			switch step {
			case 3:
				declared(newest.Add(-time.Hour))
				understood(t, filepath.Join(units, "invoice-run.service"), filepath.Join(units, "invoice-run.timer"))
				nightOf(t, filepath.Join(units, "invoice-run.service"), "ZOOKEEPER_SERVERS="+addr, "ZOOKEEPER_USERNAME=jobs", "ZOOKEEPER_PASSWORD="+jobs)
			case 4:
				declared(skipped.Add(-time.Hour))
				require.Contains(t, r.must("locktree status"), "invoice-run  once  idle, 2 missed\n")
			}
		}
		r.play()
		require.NotContains(t, r.must("locktree status"), "missed")
	})
}

// nightOf runs the command of a unit on three machines.
func nightOf(t *testing.T, unit string, env ...string) {
	line := execStart(t, unit, " /usr/local/bin/invoices")
	ran := filepath.Join(t.TempDir(), "ran")
	var all sync.WaitGroup
	codes := make([]int, 3)
	for i := range codes {
		all.Go(func() {
			c := command(t, append(strings.Fields(line), "sh", "-c", "echo $LOCKTREE_SLOT >> "+ran)...)
			c.Dir, c.Env = filepath.Dir(ran), append(environ(""), env...)
			out, _ := c.CombinedOutput()
			codes[i] = c.ProcessState.ExitCode()
			t.Logf("machine %d: %d\n%s", i, codes[i], out)
		})
	}
	all.Wait()
	require.ElementsMatch(t, []int{0, 122, 122}, codes)
	require.Equal(t, 1, strings.Count(contents(t, ran), "\n"))
}
