package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

const notCompared = "Warning: Passwords were not compared"

// The servers hide the hashes in access lists from a reader. Except for a changed password, a reader plans what an administrator does, and its
// plan is applied as an administrator's is.
func planOfAReaderIsApplied(t *testing.T, o *office) {
	declare := func(permits, app string, readers []string, admins ...string) {
		o.write("locks.locktree.hcl", strings.NewReplacer(zktest.DigestID("third:third"), zktest.DigestID("second:third"), zktest.DigestID("app:app"), zktest.DigestID("app:"+app),
			"permits = 2", "permits = "+permits).Replace(stackOf("shop", admins, readers)+someLocks))
	}
	look := []string{auditor}
	declare("2", "app", look, boss)
	o.must(exit.OK, boss, "apply", "-auto-approve")
	for _, step := range []struct {
		name, by, permits, app string
		readers, admins        []string
	}{
		{"another administrator beside the first", boss, "2", "app", look, []string{boss, "second"}},
		{"the second alone, and a change of a lock", "second", "3", "app", look, []string{"second"}},
		{"a program with another password", "second", "3", "another", look, []string{"second"}},
		{"an administrator with two passwords", "second", "2", "another", look, []string{"second", "third"}},
		{"the new password alone", "second:third", "2", "another", look, []string{"third"}},
		{"a reader more", "second:third", "2", "another", []string{auditor, "later"}, []string{"third"}},
	} {
		declare(step.permits, step.app, step.readers, step.admins...)
		theirs, ours := o.must(exit.Changes, auditor, "plan", "-out=p", "-detailed-exitcode"), o.must(exit.Changes, step.by, "plan", "-detailed-exitcode")
		theirs, _, told := strings.Cut(theirs, notCompared)
		assert.True(t, told, step.name)
		ours, _, _ = strings.Cut(ours, "\nNote: You didn't")
		if step.name == "a program with another password" {
			assert.Contains(t, ours, `~ "digest:app:r", # another digest of that user`)
			assert.NotContains(t, theirs, `"digest:app:r"`, "it is in lists only, which are compared by name")
			o.must(exit.OK, step.by, "apply", "-auto-approve")
			require.Contains(t, o.must(exit.OK, auditor, "plan", "-detailed-exitcode"), "No changes.", step.name)
			continue
		}
		samePlan(t, ours, theirs, step.name)
		require.Contains(t, o.must(exit.OK, step.by, "apply", "p"), "Apply complete!", step.name)
		require.NotContains(t, o.inventory(o.root), ":x}", "%s: a hidden hash was written", step.name)
		for _, who := range []string{step.by, auditor} {
			require.Contains(t, o.must(exit.OK, who, "plan", "-detailed-exitcode"), "No changes.", step.name)
		}
	}
}

func TestPlanOfAReaderIsApplied(t *testing.T) { planOfAReaderIsApplied(t, newOffice(t)) }

// samePlan compares a plan with that of a reader. The transaction notes pending lists in the record. In a reader's plan, these lack the
// digests that the servers hide from the reader, so its transaction may be shorter.
func samePlan(t *testing.T, ours, theirs, when string) {
	t.Helper()
	require.LessOrEqual(t, transactionBytes(t, theirs), transactionBytes(t, ours), when)
	theirs, ours = kilobytes.ReplaceAllString(theirs, "?"), kilobytes.ReplaceAllString(ours, "?")
	assert.Equal(t, strings.TrimRight(ours, "\n─"), strings.TrimRight(theirs, "\n─"), when)
}

var kilobytes = regexp.MustCompile(`([0-9.]+) kB`)

// transactionBytes is how much a plan says that its transaction writes, in kB.
func transactionBytes(t *testing.T, text string) float64 {
	said := kilobytes.FindStringSubmatch(text)
	require.NotNil(t, said, text)
	n, err := strconv.ParseFloat(said[1], 64)
	require.NoError(t, err)
	return n
}

// A reader sees a rotation that stopped half-way as an administrator does, and the reader's plan finishes it.
func TestReaderPlansTheRestOfAnInterruptedRotation(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for stop := range 30 {
		o := newOffice(t)
		o.write("locks.locktree.hcl", stackOf("shop", []string{boss}, []string{auditor})+someLocks)
		o.must(exit.OK, boss, "apply", "-auto-approve")
		o.write("locks.locktree.hcl", strings.ReplaceAll(stackOf("shop", []string{boss, "new"}, []string{auditor})+someLocks, zktest.DigestID("new:new"), zktest.DigestID("boss:new")))
		n := 0
		fault := o.server.Inject(func(r zktest.Request) bool {
			if r.Op != "setACL" {
				return false
			}
			n++
			return n > stop
		}, zktest.Fail(zktest.CodeNoAuth))
		code, _ := o.as(boss, "apply", "-auto-approve")
		fault.Remove()
		if code == exit.OK {
			require.Greater(t, stop, 5)
			return
		}
		code, theirs := o.as(auditor, "plan", "-out=p", "-detailed-exitcode")
		ours := o.must(exit.Changes, boss, "plan", "-detailed-exitcode")
		theirs, _, _ = strings.Cut(theirs, "\nSaved the plan")
		ours, _, _ = strings.Cut(ours, "\nNote: You didn't")
		// The command cannot tell a reader that a list was set already.
		theirs, _, _ = strings.Cut(theirs, notCompared)
		require.Equal(t, exit.Changes, code)
		samePlan(t, ours, theirs, fmt.Sprintf("after %d lists", stop))
		require.Contains(t, o.must(exit.OK, boss, "apply", "p"), "Apply complete!")
		require.Contains(t, o.must(exit.OK, boss, "plan", "-detailed-exitcode"), "No changes.", "after %d lists", stop)
	}
	require.Fail(t, "no apply came to its end")
}

// A list has our user name with another password. The servers show us this entry without the hash, and doctor must not take it for us.
func TestDoctorFailsWhereTheListHasAnotherPassword(t *testing.T) {
	o := newOffice(t)
	o.write("locks.locktree.hcl", stackOf("shop", []string{boss}, []string{auditor})+someLocks)
	o.must(exit.OK, boss, "apply", "-auto-approve")
	o.must(exit.OK, boss, "doctor")
	s, err := o.hand.client.Session(t.Context())
	require.NoError(t, err)
	_, err = s.SetACL(t.Context(), o.root+"/pay/ledger", append(zk.DigestACL(zk.PermAll, "boss", "before"), zk.WorldACL(zk.PermRead)...), -1)
	require.NoError(t, err)
	require.Contains(t, o.must(exit.Failed, boss, "doctor"), "lack \"wa\"")
}

const teamLocks = `namespace "jobs" {
  acl = acl.users
  mutex "ledger" {}
  semaphore "pool" { permits = 2 }
}
mutex "deploy" { acl = acl.users }
`

// sharedRoot checks that a root belongs to one stack. A team that is none of its administrators may not read it, and each command refuses
// any other stack. Both are told which arrangement to use instead.
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

	// When the first stack is gone, the second may have the root.
	first.must(exit.OK, "both", "destroy", "-auto-approve")
	second.must(exit.OK, "both", "apply", "-auto-approve")
	require.NotContains(t, second.must(exit.OK, "both", "plan", "-detailed-exitcode"), "Warning")
}

func TestTwoTeamsOnOneRootAreToldToUseTwo(t *testing.T) {
	o := newOffice(t)
	o.root = "/locks"
	sharedRoot(t, o)
}

var tablePeople = []struct{ who, column string }{
	{super, "superuser"}, {boss, "administrator"}, {auditor, "reader"}, {"search", "another team's administrator"}, {worker, "application"}, {nobodyIs, "nobody"},
}

// tableCommands are the commands of the table. Each runs on a stack of its own that was applied and is not in use. Before the command, the
// administrator runs prepare.
var tableCommands = []struct {
	command string
	prepare func(o *office)
}{
	{"validate", nil},
	{"plan", nil},
	{"plan -out=p", morePermits},
	{"plan -destroy", nil},
	{"apply -auto-approve", morePermits},
	{"apply p", savedByReader},
	{"destroy -auto-approve", nil},
	{"status", nil},
	{"status $ROOT/pay/ledger", nil},
	{"doctor", nil},
	{"show", nil},
	{"show p", savedByReader},
	{"output", nil},
	{"show namespace.pay.mutex.ledger", nil},
	{"import -from=$ROOT", nil},
	{"import namespace.pay.mutex.old $ROOT/pay/old -auto-approve", oldLock},
	{"exec namespace.pay.mutex.ledger -- true", nil},
	{"exec -try namespace.pay.semaphore.pool -- true", nil},
}

func morePermits(o *office) { o.edit("locks.locktree.hcl", "permits = 2", "permits = 3") }

// savedByReader has a reader save a plan for a user who may apply it.
func savedByReader(o *office) {
	morePermits(o)
	o.must(exit.OK, auditor, "plan", "-out=p")
}

func oldLock(o *office) {
	o.edit("locks.locktree.hcl", `mutex "ledger" {}`, "mutex \"ledger\" {}\n  mutex \"old\" {}")
	s := o.session(boss)
	acl, _, err := s.GetACL(o.t.Context(), o.root+"/pay/ledger")
	require.NoError(o.t, err)
	_, err = s.Create(o.t.Context(), o.root+"/pay/old", nil, 0, acl)
	require.NoError(o.t, err)
}

// tableOffice is a stack that was applied, and another team's beside it.
func tableOffice(o *office) *office {
	team := o.elsewhere("/search")
	team.write("locks.locktree.hcl", stackOf("search", []string{"search"}, nil)+teamLocks)
	team.must(exit.OK, "search", "apply", "-auto-approve")
	o.write("locks.locktree.hcl", stackOf("shop", []string{boss}, []string{auditor})+someLocks)
	o.must(exit.OK, boss, "apply", "-auto-approve")
	return o
}

// outcome is a cell, "yes" or "no", and the error of a refusal without the parts that differ between runs and people.
func outcome(o *office, code int, text string) (cell, why string) {
	if code == exit.OK {
		return "yes", ""
	}
	said := strings.ReplaceAll(text, o.root, "/locks")
	said = regexp.MustCompile(`_c_[-0-9a-f]+-`).ReplaceAllString(said, "_c_...-")
	said = regexp.MustCompile(`(we are|connected as) (digest:\w+|world:anyone( \(no credentials are given\))?)`).ReplaceAllString(said, "$1 ...")
	said = regexp.MustCompile(`; ask for that right.*`).ReplaceAllString(said, ".")
	m := regexp.MustCompile(`(?m)^(?:Error: (.*)\n\n(?:  on .*\n.*\n\n)?|  fails   (identity)(?:: ))(.*)$`).FindStringSubmatch(said)
	require.NotNil(o.t, m, text)
	return "no", m[1] + m[2] + ": " + m[3]
}

// identityTable runs the commands and returns the table.
func identityTable(t *testing.T, commands []string, fresh func() *office) string {
	t.Helper()
	var page strings.Builder
	var notes []string
	page.WriteString("| command |")
	for _, p := range tablePeople {
		page.WriteString(" " + p.column + " |")
	}
	page.WriteString("\n|---|" + strings.Repeat("---|", len(tablePeople)) + "\n")
	for _, c := range tableCommands {
		if len(commands) > 0 && !slices.Contains(commands, c.command) {
			continue
		}
		fmt.Fprintf(&page, "| `%s` |", strings.ReplaceAll(c.command, "$ROOT", "/locks"))
		for _, p := range tablePeople {
			o := tableOffice(fresh())
			if c.prepare != nil {
				c.prepare(o)
			}
			if o.server != nil {
				o.server.ResetCounts()
			}
			code, text := o.as(p.who, strings.Fields(strings.ReplaceAll(c.command, "$ROOT", o.root))...)
			cell, why := outcome(o, code, text)
			// A refused command writes nothing, and neither does one that only looks. exec finds out by trying.
			if o.server != nil && (why != "" || !writing.MatchString(c.command)) && !strings.HasPrefix(c.command, "exec") {
				n, which := o.writes()
				require.Zero(t, n, "%s %s sent %v", p.column, c.command, which)
			}
			if why != "" {
				i := slices.Index(notes, why)
				if i < 0 {
					i, notes = len(notes), append(notes, why)
				}
				cell += fmt.Sprintf(" (%d)", i+1)
			}
			page.WriteString(" " + cell + " |")
		}
		page.WriteString("\n")
	}
	page.WriteString("\n")
	for i, note := range notes {
		fmt.Fprintf(&page, "%d. %s\n", i+1, note)
	}
	return page.String()
}

var writing = regexp.MustCompile(`^(apply|destroy|import namespace)`)

const tablePage = "../../testdata/identities.md"

const tableHead = `# Who may do what

The table shows the result of each command. The stack has one administrator, one reader and one program in its access lists;
another administrator has another stack. A number in brackets points to a line below the table: what the command
said. "make golden" writes this page.

`

func TestWhoMayDoWhat(t *testing.T) {
	effort.Daily(t)
	got := tableHead + identityTable(t, nil, func() *office {
		o := newOffice(t)
		o.root = "/locks"
		return o
	})
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(tablePage, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(tablePage)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
