package main

import (
	"fmt"
	"path/filepath"
	"regexp"
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

// lookingCommands are those that only look, and what each must say to whoever may read everything.
var lookingCommands = map[string]string{
	"plan": "No changes.", "plan -json": `"change_summary"`, "plan -destroy": "5 to destroy", "plan -out=looked": "No changes.",
	"status": "4 locks, ", "status -json": `/pay/ledger"`, "status $ROOT": "4 locks, ", "doctor": "4 locks checked", "doctor -json": `"locks_checked": 4`,
	"show": "namespace.pay.semaphore.pool", "show -json": `"namespace.pay.mutex.ledger"`, "output": "/pay/ledger", "output -raw ledger": "/pay/ledger",
	"show namespace.pay.mutex.ledger": "namespace.pay.mutex.ledger", "import -from=$ROOT": "",
}

func TestWhoMayOnlyReadSeesEverythingAndWritesNothing(t *testing.T) {
	o := newOffice(t)
	o.write("locks.locktree.hcl", stackOf("shop", []string{boss}, []string{auditor})+someLocks)
	o.must(exit.OK, boss, "apply", "-auto-approve")
	everythingIsSeen(t, o)
}

func everythingIsSeen(t *testing.T, o *office) {
	before := o.inventory("/")
	for command, says := range lookingCommands {
		if o.server != nil {
			o.server.ResetCounts()
		}
		code, text := o.as(auditor, strings.Fields(strings.ReplaceAll(command, "$ROOT", o.root))...)
		assert.Equal(t, exit.OK, code, "%s: %s", command, text)
		assert.Contains(t, text, says, command)
		assert.NotContains(t, strings.Replace(text, notCompared, "", 1), "Warning", command)
		if o.server != nil {
			n, which := o.writes()
			require.Zero(t, n, "%s sent %v", command, which)
		}
	}
	require.Equal(t, before, o.inventory("/"))
	require.FileExists(t, filepath.Join(o.dir, "looked"))
}

// notCompared is what a plan tells a reader once.
const notCompared = "Warning: Passwords were not compared"

// A reader is not shown the hashes in access lists. It plans what an administrator plans, but for a password that changes, and its
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

// samePlan compares a plan with that of a reader. The record notes the lists that are pending, without the digests that a reader does
// not see: so theirs is shorter.
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

// A rotation that stopped half-way is shown to a reader as it is to an administrator, and its plan finishes it.
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
		// Of a list that was set already nobody can say to a reader that it was.
		theirs, _, _ = strings.Cut(theirs, notCompared)
		require.Equal(t, exit.Changes, code)
		samePlan(t, ours, theirs, fmt.Sprintf("after %d lists", stop))
		require.Contains(t, o.must(exit.OK, boss, "apply", "p"), "Apply complete!")
		require.Contains(t, o.must(exit.OK, boss, "plan", "-detailed-exitcode"), "No changes.", "after %d lists", stop)
	}
	require.Fail(t, "no apply came to its end")
}

// With a password that is not the one in a list, the user of that list is shown without the hash, and is not us.
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
