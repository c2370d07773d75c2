package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// platform is the stack in which two teams have their roots.
const platformLocks = `acl "payments" {
  grant {
    to    = [principal.platform, principal.payments]
    allow = "admin"
  }
  grant {
    to    = [principal.auditor]
    allow = "observe"
  }
}
acl "search" {
  grant {
    to    = [principal.platform, principal.search]
    allow = "admin"
  }
  grant {
    to    = [principal.auditor]
    allow = "observe"
  }
}
namespace "payments" { acl = acl.payments }
namespace "search" { acl = acl.search }
`

func principalOf(name string) string {
	return fmt.Sprintf("principal %q {\n  scheme = \"digest\"\n  id = %q\n}\n", name, zktest.DigestID(name+":"+name))
}

const teamLocks = `namespace "jobs" {
  acl = acl.users
  mutex "ledger" {}
  semaphore "pool" { permits = 2 }
}
mutex "deploy" { acl = acl.users }
`

// twoTeams is the arrangement for teams that do not administer each other: each has a root of its own, inside a namespace that a
// stack above declares.
func twoTeams(t *testing.T, platform *office) {
	platform.write("locks.locktree.hcl", stackOf("platform", []string{"platform"}, nil)+principalOf(auditor)+principalOf("payments")+principalOf("search")+platformLocks)
	platform.must(exitOK, "platform", "apply", "-auto-approve")
	payments, search := platform.elsewhere(platform.root+"/payments"), platform.elsewhere(platform.root+"/search")
	teams := map[string]*office{"payments": payments, "search": search}
	for name, o := range teams {
		o.write("locks.locktree.hcl", stackOf(name, []string{name}, []string{auditor})+teamLocks)
		require.Contains(t, o.must(exitChanges, name, "plan", "-detailed-exitcode"), "4 to add")
		require.Contains(t, o.must(exitOK, name, "apply", "-auto-approve"), "Apply complete!")
	}
	for name, o := range teams {
		require.NotContains(t, o.must(exitOK, name, "plan", "-detailed-exitcode"), "Warning", name)
		o.must(exitOK, auditor, "plan", "-detailed-exitcode")
		o.must(exitOK, name, "doctor")
	}
	platform.must(exitOK, "platform", "plan", "-detailed-exitcode")

	// By raw requests, on every node of the other's, and on what both stand on.
	for name, other := range map[string]*office{"payments": search, "search": payments} {
		s := platform.session(name)
		for _, path := range append(platform.nodes(other.root), platform.nodes(platform.root+"/.locktree")...) {
			untouchable(t, s, path)
		}
		untouchable(t, s, platform.root)
		untouchable(t, s, other.root)
	}

	// By the tool: a configuration with the wrong root, or with the other's.
	payments.root = search.root
	for command, says := range map[string]string{
		"plan": "digest:payments", "apply -auto-approve": "digest:payments", "destroy -auto-approve": "digest:payments",
	} {
		text := payments.must(exitError, "payments", strings.Fields(command)...)
		require.Contains(t, text, says, command)
	}
	payments.root = platform.root + "/payments"

	// Each changes and removes its own, and what the other has stays.
	before := platform.inventory(search.root)
	payments.edit("locks.locktree.hcl", "permits = 2", "permits = 3")
	require.Contains(t, payments.must(exitOK, "payments", "apply", "-auto-approve"), "1 changed")
	require.Contains(t, payments.must(exitOK, "payments", "destroy", "-auto-approve"), "4 destroyed")
	require.Equal(t, before, platform.inventory(search.root))
	require.Contains(t, payments.must(exitOK, "payments", "apply", "-auto-approve"), "4 added")
	require.Contains(t, search.must(exitOK, "search", "plan", "-detailed-exitcode"), "No changes.")
	require.Contains(t, search.must(exitOK, "search", "destroy", "-auto-approve"), "4 destroyed")
	require.Contains(t, payments.must(exitOK, "payments", "plan", "-detailed-exitcode"), "No changes.")
}

// untouchable: nothing can be done to the node but to know that it is there.
func untouchable(t *testing.T, s *recipes.Session, path string) {
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

func TestTwoTeamsUnderOneRootCannotTouchEachOthersNodes(t *testing.T) {
	o := newOffice(t)
	o.root = "/locks"
	twoTeams(t, o)
}

// sharedRoot: on one root, DELETE is a right of the parent, so a root has one set of administrators. A team that names others does
// not get in, and is told which arrangement to use instead.
func sharedRoot(t *testing.T, first *office) {
	first.write("locks.locktree.hcl", stackOf("first", []string{"ann", "both"}, nil)+"namespace \"a\" { acl = acl.users }\n")
	first.must(exitOK, "ann", "apply", "-auto-approve")
	second := first.elsewhere(first.root)

	// Strangers to the first.
	second.write("locks.locktree.hcl", stackOf("second", []string{"bob"}, nil)+"namespace \"b\" { acl = acl.users }\n")
	before := first.inventory(first.root)
	for _, command := range []string{"plan", "apply -auto-approve", "destroy -auto-approve"} {
		text := second.must(exitError, "bob", strings.Fields(command)...)
		require.Contains(t, text, "we do not have READ on it", command)
		require.Contains(t, text, fmt.Sprintf("If %s is another team's root, ask that team for a namespace in it on which you have all rights, and make that your root.", first.root), command)
	}
	require.Equal(t, before, first.inventory(first.root))

	// An administrator of the first applies the second one, which changes nothing of the root: only who is the root's can apply.
	second.write("locks.locktree.hcl", stackOf("second", []string{"bob", "both"}, nil)+"namespace \"b\" { acl = acl.users }\n")
	text := second.must(exitOK, "both", "apply", "-auto-approve")
	require.Contains(t, text, "Apply complete!")
	require.Contains(t, text, "Warning: Root has other administrators")
	require.Contains(t, text, `see "locktree help two-teams"`)
	require.Contains(t, second.must(exitError, "bob", "plan"), "we do not have READ on it")
	require.NotContains(t, first.must(exitOK, "ann", "plan", "-detailed-exitcode"), "Warning")
	first.must(exitOK, "ann", "doctor")
	require.Contains(t, second.must(exitOK, "both", "destroy", "-auto-approve"), "1 destroyed")

	// The same administrators in both: nothing to tell.
	first.edit("locks.locktree.hcl", "[principal.ann, principal.both]", "[principal.both]")
	first.must(exitOK, "both", "apply", "-auto-approve")
	second.write("locks.locktree.hcl", stackOf("second", []string{"both"}, nil)+"namespace \"b\" { acl = acl.users }\n")
	second.must(exitOK, "both", "apply", "-auto-approve")
	for _, o := range []*office{first, second} {
		require.NotContains(t, o.must(exitOK, "both", "plan", "-detailed-exitcode"), "Warning")
	}
}

func TestTwoTeamsOnOneRootAreToldToUseTwo(t *testing.T) {
	o := newOffice(t)
	o.root = "/locks"
	sharedRoot(t, o)
}
