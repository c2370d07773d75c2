package check

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
)

func TestCheckOfSyncLimitClockAndVersion(t *testing.T) {
	const tick = 2 * time.Second
	require.Equal(t, Unsure, checkStaleness(12*time.Second, tick, 5, false).Verdict)
	require.Contains(t, checkStaleness(12*time.Second, tick, 5, false).Next, "16.5s")
	require.Equal(t, Holds, checkStaleness(17*time.Second, tick, 5, false).Verdict)
	require.Equal(t, Unsure, checkStaleness(17*time.Second, tick, 0, false).Verdict)
	require.Equal(t, Holds, checkStaleness(4*time.Second, tick, 0, true).Verdict)
	require.Equal(t, Holds, checkClock("linux").Verdict)
	require.Equal(t, Unsure, checkClock("darwin").Verdict)
	require.Equal(t, Unsure, checkTimeout(12*time.Second, 0, "").Verdict)
	for version, want := range map[string]Verdict{"3.8.0-11+deb": Unsure, "3.8.6": Unsure, "3.9.3": Unsure, "3.9.4": Holds, "3.10.0": Holds, "4.0.0": Holds, "?": Unsure} {
		require.Equal(t, want, checkVersion("Zookeeper version: "+version+", built on", false).Verdict, version)
	}
	for version, what := range map[string]string{
		"3.8.6": "ZOOKEEPER-4643", "3.9.2": "ZOOKEEPER-4643", "3.9.3": "ZOOKEEPER-4925, of 3.9.3 alone", "3.5.9": "cured in 3.9.3",
	} {
		require.Contains(t, checkVersion("Zookeeper version: "+version+", built on", false).What, what, version)
	}
	require.Contains(t, checkVersion("Zookeeper version: 3.8.6, built on", false).Next, "no release of 3.8 has the cure")
	require.NotContains(t, checkVersion("Zookeeper version: 3.9.1, built on", false).Next, "no release")
	// Formerly, the verdict on a standalone server was Unsure, with the advice "a standalone server is not affected".
	alone := checkVersion("Zookeeper version: 3.8.0-11+deb, built on", true)
	require.Equal(t, Holds, alone.Verdict)
	require.Equal(t, "it is 3.8.0, standalone", alone.What)
}

// doctor judged the session timeout, but did not say what it means.
func TestCheckSaysWhatALeaseMeans(t *testing.T) {
	of := sessionsOf("tickTime=2000\nminSessionTimeout=4000\nmaxSessionTimeout=40000\n", "zk_avg_election_time\t120.0\nzk_max_election_time\t310\nzk_cnt_election_time\t3\n")
	k := checkLease(15*time.Second, of)
	require.Equal(t, Holds, k.Verdict)
	require.Equal(t, `with a session timeout of 15s, a client that hears nothing gives up its leases after 7.5s, and the lock of one that crashed comes free after about 15s; `+
		`the server grants 4s to 40s, so a job of "locktree exec", which asks for 1m0s, gets 40s and is told to end after 13.3s; elections that it has seen since it started: 3, the slowest took 310ms`, k.What)
	of.slowest = 8 * time.Second
	k = checkLease(15*time.Second, of)
	require.Equal(t, Unsure, k.Verdict)
	require.Contains(t, k.Next, "more than 16s")
	require.Equal(t, Holds, checkLease(15*time.Second, sessionsOf("", "")).Verdict, "what is not known is no finding")
	of.longest = 2 * time.Minute
	require.Contains(t, checkLease(15*time.Second, of).What, "gets 1m0s and is told to end after 20s")
}

func TestCheckFindsAServerWhoseDataDiffersFromTheLeaders(t *testing.T) {
	require.Equal(t, Holds, checkReplica("", true).Verdict)
	require.Equal(t, Unsure, checkReplica("zk_version\t3.5.9", false).Verdict)
	require.Equal(t, Holds, checkReplica("zk_digest_mismatches_count\t0\nzk_version\t3.8.0", false).Verdict)
	k := checkReplica("zk_digest_mismatches_count\t12\n", false)
	require.Equal(t, Fails, k.Verdict)
	require.Contains(t, k.What, "after 12 transactions")
	require.Contains(t, k.Next, "delete version-2")
}

// A certificate was no finding before it had expired.
func TestCertificatesAreAFindingTwoWeeksBeforeTheyExpire(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration, ours bool) Certificate {
		return Certificate{Ours: ours, Subject: "CN=x", Expires: now.Add(d)}
	}
	const day = 24 * time.Hour
	k := Certificates([]Certificate{in(90*day, true), in(15*day, false)}, now)
	require.Equal(t, Holds, k.Verdict)
	require.Equal(t, "the first: CN=x (the server's) expires on 2026-12-09T12:00:00Z, in 15.0 days", k.What)
	k = Certificates([]Certificate{in(13*day, true), in(90*day, false)}, now)
	require.Equal(t, Unsure, k.Verdict)
	require.Equal(t, "CN=x (ours) expires on 2026-12-07T12:00:00Z, in 13.0 days", k.What)
	k = Certificates([]Certificate{in(13*day, true), in(-day, true)}, now)
	require.Equal(t, Fails, k.Verdict)
	require.Contains(t, k.What, "expired on 2026-11-23T12:00:00Z")
	require.Equal(t, Unsure, Certificates(nil, now).Verdict)
}

// IDs in the layout of a coming release were read in the present layout: half of an epoch that lasts for decades seemed used.
func TestTransactionIDsOfTheWideLayoutAreNotForecastAsNarrowOnes(t *testing.T) {
	at := func(version string, zxid int64) *scan.Snapshot {
		return &scan.Snapshot{At: time.Now(), Zxid: zxid, Servers: []words.Server{{Version: version}}}
	}
	const wideID = 5<<40 | 0xf0000000
	for name, c := range map[string]struct {
		snap  *scan.Snapshot
		known bool
	}{
		"3.9":          {at("3.9.5", 300<<32|0xf0000000), true},
		"3.10, narrow": {at("3.10.0", 200<<32|0xf0000000), true},
		"3.10, either": {at("3.10.0", wideID), false},
		"not said":     {at("", wideID), false},
		"a mixed one":  {&scan.Snapshot{Zxid: wideID, Servers: []words.Server{{Version: "3.10.0"}, {Version: "3.9.5"}}}, true},
	} {
		used, known := EpochUsed(c.snap)
		require.Equal(t, c.known, known, name)
		require.InDelta(t, 0.9375, used, 0.001, name)
		k := checkZxid(c.snap)
		require.Equal(t, !c.known, strings.HasPrefix(k.What, "if the servers count with 32 bits"), name)
		require.Equal(t, !c.known, strings.Contains(k.Next, "wideCounterZxidEnabled"), name)
	}
}
