package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckOfSyncLimitClockAndVersion(t *testing.T) {
	const tick = 2 * time.Second
	require.Equal(t, VerdictUnsure, checkStaleness(12*time.Second, tick, 5, false).Verdict)
	require.Contains(t, checkStaleness(12*time.Second, tick, 5, false).Next, "16.5s")
	require.Equal(t, VerdictHolds, checkStaleness(17*time.Second, tick, 5, false).Verdict)
	require.Equal(t, VerdictUnsure, checkStaleness(17*time.Second, tick, 0, false).Verdict)
	require.Equal(t, VerdictHolds, checkStaleness(4*time.Second, tick, 0, true).Verdict)
	require.Equal(t, VerdictHolds, checkClock("linux").Verdict)
	require.Equal(t, VerdictUnsure, checkClock("darwin").Verdict)
	require.Equal(t, VerdictUnsure, checkTimeout(12*time.Second, 0, "").Verdict)
	for version, want := range map[string]Verdict{"3.8.0-11+deb": VerdictUnsure, "3.8.6": VerdictUnsure, "3.9.3": VerdictUnsure, "3.9.4": VerdictHolds, "3.10.0": VerdictHolds, "4.0.0": VerdictHolds, "?": VerdictUnsure} {
		require.Equal(t, want, checkVersion("Zookeeper version: "+version+", built on", false).Verdict, version)
	}
	// It was unsure, with "a standalone server is not affected" as what to do.
	alone := checkVersion("Zookeeper version: 3.8.0-11+deb, built on", true)
	require.Equal(t, VerdictHolds, alone.Verdict)
	require.Equal(t, "it is 3.8.0, standalone", alone.What)
}

func TestCheckFindsAServerWhoseDataDiffersFromTheLeaders(t *testing.T) {
	require.Equal(t, VerdictHolds, checkReplica("", true).Verdict)
	require.Equal(t, VerdictUnsure, checkReplica("zk_version\t3.5.9", false).Verdict)
	require.Equal(t, VerdictHolds, checkReplica("zk_digest_mismatches_count\t0\nzk_version\t3.8.0", false).Verdict)
	k := checkReplica("zk_digest_mismatches_count\t12\n", false)
	require.Equal(t, VerdictFails, k.Verdict)
	require.Contains(t, k.What, "after 12 transactions")
	require.Contains(t, k.Next, "delete version-2")
}
