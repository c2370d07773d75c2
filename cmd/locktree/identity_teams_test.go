package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

const teamLocks = `namespace "jobs" {
  acl = acl.users
  mutex "ledger" {}
  semaphore "pool" { permits = 2 }
}
mutex "deploy" { acl = acl.users }
`

// twoTeams is the arrangement for teams that do not administer each other: each has a root of its own, below a path of no stack.
func twoTeams(t *testing.T, platform *office) {
	_, err := platform.session("platform").Create(t.Context(), platform.root, nil, 0, zk.WorldACL(zk.PermCreate|zk.PermRead))
	require.NoError(t, err)
	payments, search := platform.elsewhere(platform.root+"/payments"), platform.elsewhere(platform.root+"/search")
	teams := map[string]*office{"payments": payments, "search": search}
	for name, o := range teams {
		o.write("locks.locktree.hcl", stackOf(name, []string{name}, []string{auditor})+teamLocks)
		require.Contains(t, o.must(exit.Changes, name, "plan", "-detailed-exitcode"), "4 to add")
		require.Contains(t, o.must(exit.OK, name, "apply", "-auto-approve"), "Apply complete!")
	}
	for name, o := range teams {
		require.NotContains(t, o.must(exit.OK, name, "plan", "-detailed-exitcode"), "Warning", name)
		o.must(exit.OK, auditor, "plan", "-detailed-exitcode")
		o.must(exit.OK, name, "doctor")
	}

	// By raw requests, on every node of the other's.
	for name, other := range map[string]*office{"payments": search, "search": payments} {
		s := platform.session(name)
		for _, path := range platform.nodes(other.root) {
			untouchable(t, s, path)
		}
		untouchable(t, s, other.root)
	}

	// By the tool: a configuration with the wrong root, or with the other's.
	payments.root = search.root
	for command, says := range map[string]string{
		"plan": "digest:payments", "apply -auto-approve": "digest:payments", "destroy -auto-approve": "digest:payments",
	} {
		text := payments.must(exit.Failed, "payments", strings.Fields(command)...)
		require.Contains(t, text, says, command)
	}
	payments.root = platform.root + "/payments"

	// Each changes and removes its own, and what the other has stays.
	before := platform.inventory(search.root)
	payments.edit("locks.locktree.hcl", "permits = 2", "permits = 3")
	require.Contains(t, payments.must(exit.OK, "payments", "apply", "-auto-approve"), "1 changed")
	require.Contains(t, payments.must(exit.OK, "payments", "destroy", "-auto-approve"), "4 destroyed")
	require.Equal(t, before, platform.inventory(search.root))
	require.Contains(t, payments.must(exit.OK, "payments", "apply", "-auto-approve"), "4 added")
	require.Contains(t, search.must(exit.OK, "search", "plan", "-detailed-exitcode"), "No changes.")
	require.Contains(t, search.must(exit.OK, "search", "destroy", "-auto-approve"), "4 destroyed")
	require.Contains(t, payments.must(exit.OK, "payments", "plan", "-detailed-exitcode"), "No changes.")
}

// untouchable: nothing can be done to the node but to know that it is there.
func untouchable(t *testing.T, s *direct.Session, path string) {
	t.Helper()
	_, err := s.Set(t.Context(), path, []byte("x"), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth, "set %s", path)
	_, err = s.SetACL(t.Context(), path, zk.WorldACL(zk.PermAll), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth, "setACL %s", path)
	_, err = s.Create(t.Context(), path+"/x", nil, 0, zk.WorldACL(zk.PermAll))
	require.ErrorIs(t, err, zk.ErrNoAuth, "create in %s", path)
	want := zk.ErrNoAuth
	if kind.ParentPath(path) == "/" { // where everybody may delete what is empty
		want = zk.ErrNotEmpty
	}
	require.ErrorIs(t, s.Delete(t.Context(), path, -1), want, "delete %s", path)
}

func TestTwoTeamsBelowOnePathCannotTouchEachOthersNodes(t *testing.T) {
	o := newOffice(t)
	o.root = "/locks"
	twoTeams(t, o)
}

// sharedRoot: a root belongs to one stack. A team that is none of its administrators may not read it, and any other stack is refused
// by each command. Both are told which arrangement to use instead.
func sharedRoot(t *testing.T, first *office) {
	first.write("locks.locktree.hcl", stackOf("first", []string{"ann", "both"}, nil)+"namespace \"a\" { acl = acl.users }\n")
	first.must(exit.OK, "ann", "apply", "-auto-approve")
	second := first.elsewhere(first.root)

	// Strangers to the first.
	second.write("locks.locktree.hcl", stackOf("second", []string{"bob"}, nil)+"namespace \"b\" {\n  acl = acl.users\n  mutex \"m\" {}\n}\n")
	before := first.inventory(first.root)
	for _, command := range []string{"plan", "apply -auto-approve", "destroy -auto-approve"} {
		text := second.must(exit.Failed, "bob", strings.Fields(command)...)
		require.Contains(t, text, "we do not have READ on it", command)
		require.Contains(t, text, fmt.Sprintf("If %s is another team's root, take a root of your own beside it: see \"locktree help two-teams\".", first.root), command)
	}

	// An administrator of the first, with another stack.
	second.write("locks.locktree.hcl", stackOf("second", []string{"bob", "both"}, nil)+"namespace \"b\" {\n  acl = acl.users\n  mutex \"m\" {}\n}\n")
	for _, command := range []string{
		"plan", "plan -destroy", "apply -auto-approve", "status", "show", "output", "destroy -auto-approve", "import namespace.b " + first.root + "/a", "doctor",
		"import -from=" + first.root, "history", "revoke namespace.b.mutex.m", "break namespace.b.mutex.m", "status -prefix " + first.root,
	} {
		text := strings.Join(strings.Fields(second.must(exit.Failed, "both", strings.Fields(command)...)), " ")
		require.Contains(t, text, "Root belongs to another stack", command)
		require.Contains(t, text, fmt.Sprintf(`this root belongs to stack "first" (%s/.locktree/stacks/first is its record)`, first.root), command)
		require.Contains(t, text, `see "locktree help two-teams"`, command)
	}
	inside := second.elsewhere(first.root + "/a/b")
	inside.write("locks.locktree.hcl", stackOf("second", []string{"both"}, nil))
	beside := second.elsewhere(first.root + "-of-second")
	beside.write("locks.locktree.hcl", stackOf("second", []string{"both"}, nil))
	for text, want := range map[string]string{
		inside.must(exit.Failed, "both", "plan"):                             first.root + "/a/b: the root " + first.root + ", which is around this path, belongs to stack \"first\"",
		beside.must(exit.Failed, "both", "import", "-from="+first.root+"/a"): first.root + "/a: the root " + first.root + ", which is around this path, belongs to stack \"first\"",
	} {
		require.Contains(t, text, "Root belongs to another stack")
		require.Contains(t, text, want)
	}
	require.Equal(t, before, first.inventory(first.root))
	require.NotContains(t, first.must(exit.OK, "ann", "plan", "-detailed-exitcode"), "Warning")

	// When the first has gone, the root is the second one's.
	first.must(exit.OK, "both", "destroy", "-auto-approve")
	second.must(exit.OK, "both", "apply", "-auto-approve")
	require.NotContains(t, second.must(exit.OK, "both", "plan", "-detailed-exitcode"), "Warning")
}

func TestTwoTeamsOnOneRootAreToldToUseTwo(t *testing.T) {
	o := newOffice(t)
	o.root = "/locks"
	sharedRoot(t, o)
}
