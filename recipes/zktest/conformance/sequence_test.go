//go:build linux

package conformance

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A sequence number that stops growing would break every lock, so what happens after 2^31 creates is compared, not believed.
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
	require.NoError(t, memory.Create("/q/x", nil)) // the two transactions that the snapshot stands for besides
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
