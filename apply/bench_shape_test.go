//go:build linux

package apply_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shape is a way to declare many locks.
type shape struct {
	name string
	// files are written beside the ensemble: by name, for so many locks of which the
	// first so many have another description, or limit.
	files func(locks, changed int) map[string]string
	// percent of the locks change.
	percent int
}

func (s shape) write(b *testing.B, dir, server string, locks, changed int) {
	files := s.files(locks, changed)
	files["ensemble.locktree.hcl"] = fmt.Sprintf(`
locktree {
  stack = "scale"
}
ensemble "main" {
  servers = [%q]
  root    = "/scale"
}
%s`, server, open)
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(b, os.WriteFile(path, []byte(text), 0o600))
	}
}

const open = `
principal "everybody" {
  scheme = "world"
  id     = "anyone"
}
acl "open" {
  allow_world = true
  grant {
    to    = [principal.everybody]
    allow = "admin"
  }
}
`

// mutexes is a block of n locks by for_each. range yields at most 1,024 numbers.
func mutexes(n, changed int) string {
	return fmt.Sprintf(`
  mutex "m" {
    for_each    = toset([for p in setproduct(range(%d), range(1000)) : tostring(p[0] * 1000 + p[1])])
    description = tonumber(each.value) < %d ? "A changed lock." : "Lock ${each.value}."
  }
`, n/1000, changed)
}

var oneNamespace = shape{"one namespace", func(locks, changed int) map[string]string {
	return map[string]string{"locks.locktree.hcl": "namespace \"n\" {\n  acl = acl.open\n" + mutexes(locks, changed) + "}\n"}
}, 1}

// semaphores all get another limit: each has two children to look at, a change in the
// plan with the node before and after it, and an operation. Their access lists are as
// long as in real use. Applying the saved plan took 740 MiB when each node brought its
// own copies of them; it takes 425 MiB on either server, as main.memoryGoal asks for.
var semaphores = shape{"semaphores, each changed", func(locks, changed int) map[string]string {
	return map[string]string{"locks.locktree.hcl": fmt.Sprintf(`
principal "admin" {
  scheme = "digest"
  id     = "provisioner:AAAAAAAAAAAAAAAAAAAAAAAAAAA="
}
principal "worker" {
  scheme = "digest"
  id     = "worker:BBBBBBBBBBBBBBBBBBBBBBBBBBB="
}
acl "three" {
  allow_world = true
  grant {
    to    = [principal.everybody, principal.admin]
    allow = "admin"
  }
  grant {
    to    = [principal.worker]
    allow = "lock"
  }
}
namespace "n" {
  acl = acl.three
  semaphore "s" {
    for_each = toset([for p in setproduct(range(%d), range(1000)) : tostring(p[0] * 1000 + p[1])])
    permits  = tonumber(each.value) < %d ? 7 : 3
  }
}
`, locks/1000, changed)}
}, 100}

var hundredNamespaces = shape{"namespaces of 1,000", func(locks, changed int) map[string]string {
	each := fmt.Sprintf("  acl      = acl.open\n  for_each = toset([for i in range(%d) : tostring(i)])\n", locks/1000)
	return map[string]string{"locks.locktree.hcl": "namespace \"n\" {\n" + each + mutexes(1000, changed*1000/locks) + "}\n"}
}, 1}

var modules = shape{"modules of 1,000", func(locks, changed int) map[string]string {
	return map[string]string{
		"locks.locktree.hcl": fmt.Sprintf(`
module "team" {
  source   = "./team"
  for_each = toset([for i in range(%d) : tostring(i)])
  name     = each.key
}
`, locks/1000),
		"team/locks.locktree.hcl": "variable \"name\" {\n  type = string\n}\n" + open +
			"namespace \"team\" {\n  name = \"team-${var.name}\"\n  acl  = acl.open\n" + mutexes(1000, changed*1000/locks) + "}\n",
	}
}, 1}

// writtenOut is what a generator writes: a block for each lock.
var writtenOut = shape{"written out", func(locks, changed int) map[string]string {
	var b strings.Builder
	for i := range locks {
		if i%1000 == 0 {
			fmt.Fprintf(&b, "namespace \"n%d\" {\n  acl = acl.open\n", i/1000)
		}
		text := "Lock"
		if i < changed {
			text = "Changed lock"
		}
		fmt.Fprintf(&b, "  mutex \"lock-%d\" {\n    description = \"%s %d.\"\n  }\n", i, text, i)
		if i%1000 == 999 {
			b.WriteString("}\n")
		}
	}
	return map[string]string{"locks.locktree.hcl": b.String()}
}, 1}
