//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The proof is that of examples/redpacket: the pot is paid out to the cent, or it is not.
func TestThePotIsPaidExactlyOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		args  string
		exact bool
	}{
		"redis, nobody stands still":             {"-on redis -faults 0 -ttl 1m", true},
		"redis, a holder outlives its key":       {"-on redis -ttl 100ms", false},
		"redis, no lock":                         {"-on redis -unlocked", false},
		"postgres, holders' connections are cut": {"-on postgres", true},
		"postgres, no lock":                      {"-on postgres -unlocked", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What goes wrong only if somebody comes between is tried again on a machine where nobody did.
			for {
				require.NoError(t, t.Context().Err())
				var out strings.Builder
				err := run(t.Context(), append(strings.Fields(c.args), "-workers", "30"), &out)
				t.Log(out.String())
				if c.exact {
					require.NoError(t, err)
					require.Contains(t, out.String(), "Exactly the pot.")
					return
				}
				if strings.Contains(out.String(), "Exactly") {
					continue
				}
				if strings.Contains(c.args, "-unlocked") {
					require.NoError(t, err)
					require.Contains(t, out.String(), "that is what the lock is for")
					return
				}
				require.ErrorContains(t, err, "the lock failed")
				return
			}
		})
	}
}

func TestWhatIsNotThereIsSaid(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"-on", "etcd"}, new(strings.Builder)), "there is redis and postgres")
	t.Setenv("PATH", t.TempDir())
	require.ErrorContains(t, run(t.Context(), []string{"-on", "redis"}, new(strings.Builder)), "apt-get install redis-server")
}
