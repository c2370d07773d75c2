//go:build linux

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
	server "github.com/locktree/locktree/recipes/zktest/internal/wire"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestGoldenAnswersAreThoseOfTheRealServer(t *testing.T) {
	t.Parallel()
	s := realzk.Start(t, realzk.Options{Config: map[string]string{
		"extendedTypesEnabled": "true", "enforceQuota": "true", "forceSync": "no",
	}, Properties: map[string]string{"znode.container.checkIntervalMs": "86400000"}})
	if len(as(t, TCP(s.Addr))) > 0 {
		require.Empty(t, os.Getenv("GOLDEN"), "golden answers are those of %sx, and this is another release", goldenVersion)
		Scripted(t, TCP(s.Addr))
		return
	}
	parts := record(t, TCP(s.Addr))
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile("testdata/golden.txt", []byte(formatGolden(parts)), 0o644))
		return
	}
	require.Equal(t, golden, formatGolden(parts))
}

func TestGoldenAnswersAreThoseOfTheServerInMemoryOverAPipe(t *testing.T) {
	Scripted(t, pipe(zktest.Start(t, zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement(), zktest.WithReapInterval(24*time.Hour))))
}

// FuzzReply checks that the suite reports any answer of a server. It does not panic, and does not allocate by a length or count in the
// answer.
func FuzzReply(f *testing.F) {
	for op := range server.OpNames {
		f.Add(op, []byte(nil))
		f.Add(op, []byte("\x00\x00\x00\x01\x00\x00\x00\x02/a\xff\xff\xff\xff"))
		f.Add(op, []byte("\x7f\xff\xff\xff"))
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		p := &player{root: "/r", owners: map[int64]string{}}
		require.Contains(t, p.reply(Op{Op: op}, frame{body: wire.Decoder{B: body}}), "code=0")
	})
}

// A sequence number that stops growing would break every lock, so the test compares what happens after 2^31 creates.
func TestSequenceNumbersEndAsInZooKeeper(t *testing.T) {
	t.Parallel()
	real := realzk.Start(t, realzk.Options{Prepare: func(dir, classPath string) error {
		out, err := exec.Command("java", "-cp", classPath, "testdata/NearTheEnd.java", dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}})
	memory := zktest.Start(t, as(t, TCP(real.Addr))...)
	require.NoError(t, memory.Create("/q", []byte{}))
	require.NoError(t, memory.SetCreateCount("/q", 1<<31-3))
	require.NoError(t, memory.Create("/q/x", nil)) // the snapshot includes two more transactions
	require.NoError(t, memory.Delete("/q/x"))
	require.NoError(t, memory.SetCreateCount("/q", 1<<31-3))
	ops := []Op{
		create(0, "/n-", 2), create(0, "/n-", 3), list(0, ""), create(0, "/n-", 2), list(0, ""), create(0, "/n-", 2),
		create(0, "/plain", 0), list(0, ""), multi(create(0, "/m-", 2), create(0, "/m-", 2), create(0, "/m-", 3)),
		list(0, ""), create(0, "/n-", 2), create(0, "/o-", 2), del(0, "/plain"), create(0, "/p-", 2), list(0, ""),
	}
	a, err := play(TCP(real.Addr), "/q", ops)
	require.NoError(t, err)
	b, err := play(pipe(memory), "/q", ops)
	require.NoError(t, err)
	for _, l := range a {
		t.Log(l)
	}
	_, diff := firstDifference(b, a)
	require.Empty(t, diff)
}
