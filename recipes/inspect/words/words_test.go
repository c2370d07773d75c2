package words

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The answers of Apache ZooKeeper 3.8.0, of a follower and of the leader.
const (
	followerDump = "SessionTracker dump:\nGlobal Sessions(2):\n0x100016ac0f90000\t10000ms\n0xff00016ac0fb0000\t4000ms\nephemeral nodes dump:\n" +
		"Sessions with Ephemerals (1):\n0xff00016ac0fb0000:\n\t/a/e-lock-0000000001\n\t/a/other\n\t/s/.locktree/locks/x/e-lock-0000000001\n" +
		"Connections dump:\nConnections Sets (1)/(2):\n2 expire at Sun Nov 22 07:58:21 UTC 2026:\n\tip: /127.0.0.1:40830 sessionId: 0x0\n\tip: /127.0.0.1:40822 sessionId: 0x100016ac0f90000\n"
	leaderDump = "SessionTracker dump:\nSession Sets (1)/(2):\n2 expire at Sun Nov 22 07:58:15 UTC 2026:\n\t0x100016ac0f90000\n\t0xff00016ac0fb0000\n" +
		"ephemeral nodes dump:\nSessions with Ephemerals (0):\nConnections dump:\nConnections Sets (0)/(0):\n"
	cons = " /127.0.0.1:40842[0](queued=0,recved=1,sent=0)\n" +
		" /[0:0:0:0:0:0:0:1]:40822[1](queued=0,recved=2,sent=2,sid=0xff00016ac0fb0000,lop=CREA,est=1795334285182,to=10000,lcxid=0x1,lzxid=0x100000002,lresp=23773580,llat=16,minlat=0,avglat=18,maxlat=21)\n\n"
)

func TestTheAnswersOfLeaderAndFollower(t *testing.T) {
	const big = -0xfffe953f050000 // ids are unsigned
	d, err := parseDump(strings.NewReader(followerDump))
	require.NoError(t, err)
	require.False(t, d.sets)
	require.Equal(t, map[string]map[string]int64{"/a": {"e-lock-0000000001": big}}, d.owners, "contenders, and not those of the provisioner")
	require.Equal(t, &Session{ID: big, Timeout: 4 * time.Second, Nodes: 3, Bytes: 20 + 8 + 38}, d.sessions[big])
	require.Equal(t, "127.0.0.1:40822", d.sessions[0x100016ac0f90000].Address)

	d, err = parseDump(strings.NewReader(leaderDump))
	require.NoError(t, err)
	require.True(t, d.sets)
	require.Equal(t, time.Date(2026, 11, 22, 7, 58, 15, 0, time.UTC), d.expires[big].UTC())
	for i := range followerDump {
		_, err := parseDump(strings.NewReader(followerDump[:i]))
		require.Equal(t, strings.Contains(followerDump[:i], "Connections dump:"), err == nil, "an answer that ends early is none")
	}

	seen := map[int64]string{}
	n, err := parseCons(strings.NewReader(cons), func(id int64, addr string, timeout time.Duration) { seen[id] = addr + " " + timeout.String() })
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, map[int64]string{big: "[0:0:0:0:0:0:0:1]:40822 10s"}, seen)
	_, err = parseCons(strings.NewReader(strings.TrimSuffix(cons, "\n")), func(int64, string, time.Duration) {})
	require.Error(t, err)
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{followerDump, leaderDump, cons, "Mode: leader\nZxid: 0x1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		_, _ = parseDump(strings.NewReader(answer))
		_ = parseMembers(answer)
		_, _ = parseCons(strings.NewReader(answer), func(int64, string, time.Duration) {})
		_, _ = (&Server{}).describe(strings.NewReader(answer))
	})
}
