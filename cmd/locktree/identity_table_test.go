package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// The people of the table, by column.
var tablePeople = []struct{ who, column string }{
	{super, "superuser"}, {boss, "administrator"}, {auditor, "reader"}, {"search", "another team's administrator"}, {worker, "application"}, {nobodyIs, "nobody"},
}

// The commands of the table. Each runs on a stack of its own, which was applied and of which nothing is in use; what stands in
// prepare, the administrator has done.
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

// savedByReader: who only looks saves a plan, which who may apply takes.
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

// outcome is a cell, "yes" or "no", and what was said to a refusal, without what is another in each run and for each person.
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

// identityTable runs the commands and writes the page.
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
			// What is refused writes nothing, and what only looks does not either; exec finds out by trying.
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

As it was run: a stack with one administrator, one reader and one program in its access lists, and somebody who administers
another stack. A number is what the command said, below. "make golden" writes this page.

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
