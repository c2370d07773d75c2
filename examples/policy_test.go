package examples_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// The rules run as check blocks, which warn in the plan, and outside the program, on the plan. Each rule finds what breaks it, and no other
// rule does.
func TestPolicyInsideAndOutside(t *testing.T) {
	srv := zktest.Start(t)
	for _, c := range []struct{ broken, variable, want string }{
		{"nothing", "environment=production", ""},
		{"owner", "owner=", "namespace.payments.mutex.ledger: owner: nobody is responsible\nnamespace.payments.semaphore.workers: owner: nobody is responsible\n"},
		{"world", `user={ scheme = "world", id = "anyone" }`, "namespace.payments.mutex.ledger: world: everybody has rights: " +
			"digest:platform:cdrwa, world:anyone:cdr\nnamespace.payments.semaphore.workers: world: everybody has rights: " +
			"digest:platform:cdrwa, world:anyone:cdr\n"},
		{"max_hold", "max_hold=", "namespace.payments.mutex.ledger: max_hold: no longest time is declared\n"},
		{"names", "name=Ledger_2", "namespace.payments.mutex.ledger: names: /locks/payments/Ledger_2 is not lower-case letters, digits and hyphens\n"},
		{"protected", "protected=false", "namespace.payments.mutex.ledger: protected: prevent_destroy is not set\n"},
	} {
		t.Run(c.broken, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "plan")
			env := append(os.Environ(), "ZOOKEEPER_SERVERS="+srv.Addr(), "ZOOKEEPER_SESSION=40")
			plan := command(t, "-chdir=policy", "plan", "-out="+file, "-var="+c.variable)
			plan.Env = env
			out, err := plan.CombinedOutput()
			require.NoError(t, err, string(out))
			failed := regexp.MustCompile(`in check "(\w+)"`).FindAllStringSubmatch(string(out), -1)
			if c.want == "" {
				require.Empty(t, failed, string(out))
			} else {
				require.NotEmpty(t, failed, string(out))
			}
			for _, check := range failed {
				require.Equal(t, cmp.Or(map[string]string{"world": "no_world_access"}[c.broken], c.broken), check[1], string(out))
			}
			show := exec.Command("bash", "-o", "pipefail", "-c", `"$0" show -json "$1" | jq -r --arg environment production -f policy/policy.jq`, plan.Path, file)
			show.Env = env
			out, err = show.CombinedOutput()
			require.Equal(t, c.want, string(out))
			require.Equal(t, c.want == "", err == nil, "jq exits with 1 where a rule is broken")
		})
	}
}
