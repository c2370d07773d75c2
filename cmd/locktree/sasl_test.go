package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

const saslAuth = "  auth \"sasl\" {\n    username = var.me\n    password = var.password\n  }\n"

var saslStack = "variable \"me\" {}\nvariable \"password\" {\n  sensitive = true\n}\n" + oneLock + principal{"new", "sasl", "new"}.block() +
	stackIn("shop", saslAuth, []principal{{"old", "sasl", "old"}}, nil, nil)

// saslOffice is a stack on a server that serves nobody who has not logged in, and as whom its commands are run.
func saslOffice(t *testing.T) (o *office, as func(who string, code int, says string, args ...string)) {
	server := zktest.Start(t, zktest.WithSASLRequired(), zktest.WithSASL(func(user string) string {
		return map[string]string{"old": "unsaid, old", "new": "unsaid, new"}[user]
	}))
	o = &office{folder: newFolder(t), addr: server.Addr(), server: server, root: "/t"}
	o.write("locks.locktree.hcl", saslStack)
	return o, func(who string, code int, says string, args ...string) {
		t.Helper()
		o.env = []string{"LOCKTREE_VAR_me=" + who, "LOCKTREE_VAR_password=unsaid, " + who}
		text := o.must(code, nobodyIs, args...)
		require.Contains(t, text, says, "%s %v", who, args)
		require.NotContains(t, text, "unsaid")
	}
}

// While an administrator is replaced both are admitted, and nobody is locked out at any moment.
func TestAPrincipalOfSASLIsReplaced(t *testing.T) {
	o, as := saslOffice(t)
	as("old", exit.OK, "Apply complete!", "apply", "-auto-approve")
	as("old", exit.OK, "identity: we are sasl:old, an administrator of this stack", "doctor")
	as("new", exit.Failed, "The servers see this connection as sasl:new", "plan")
	o.edit("locks.locktree.hcl", "[principal.old]", "[principal.old, principal.new]")
	as("old", exit.OK, "Apply complete!", "apply", "-auto-approve")
	for _, who := range []string{"old", "new"} {
		as(who, exit.OK, "No changes.", "plan", "-detailed-exitcode")
	}
	o.edit("locks.locktree.hcl", "[principal.old, principal.new]", "[principal.new]")
	as("new", exit.OK, "Apply complete!", "apply", "-auto-approve")
	as("new", exit.OK, "No changes.", "plan", "-detailed-exitcode")
	as("old", exit.Failed, "The servers see this connection as sasl:old", "plan")
	as("new", exit.OK, "Destroy complete!", "destroy", "-auto-approve")
}

// A list that would lock us out is refused before anything is written, and a name that is ours in part is pointed out.
func TestAPrincipalOfSASLIsNotLockedOut(t *testing.T) {
	o, as := saslOffice(t)
	as("new", exit.Failed, "we are sasl:new, and the administrators declared in the ensemble block are sasl:old", "apply", "-auto-approve")
	o.edit("locks.locktree.hcl", "  admins = [principal.old]\n", "")
	as("new", exit.Failed, "Apply would lock itself out", "apply", "-auto-approve")
	as("new", exit.Failed, "Apply would lock itself out", "plan")
	_, there := o.server.Get("/t")
	require.False(t, there, "nothing was written")
	as("nobody", exit.Failed, "SASL login: authentication refused (code -124); check the password of nobody", "plan")
	as("nobody", exit.Failed, "check the password of nobody", "doctor")
}
