package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
)

// A program that may write to the root names an output, a node or a contender as it likes. Here each text of each node, and of a file,
// writes lines of its own that a terminal or a CI runner obeys, or is 20 kB long. A damaged mark forged "No changes." and workflow
// commands. One long name made each line of status as long.
func TestNoTextOfOthersMakesALineOfItsOwn(t *testing.T) {
	const evil = "\u202ex\u0085\nFORGED\n::error::FORGED\r##[error]x\x1b[31m ##vso[x]\x1b]0;owned\x07"
	long := strings.Repeat("w", 20_000)
	config := oneLedger + `namespace "n" {
  acl = acl.open
  mutex "m" {
    for_each = toset([for i in range(50) : format("%d", i)])
  }
}
check "c" {
  assert {
    condition     = false
    error_message = "bad\n::set-output name=changes::false\n##[error]x"
  }
}
`
	inFakeTime(t, config, func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		ledger, ok := b.server.Get("/t/ledger")
		require.True(t, ok)
		for i, text := range []string{evil, long} {
			n := 0
			forgeries(t, ledger.Data, text, func(data []byte) {
				n++
				require.NoError(t, b.server.Create(fmt.Sprintf("/t/forged%d-%d", i, n), data))
			})
			require.Greater(t, n, 5)
			id, err := json.Marshal(map[string]string{"id": text, "host": text})
			require.NoError(t, err)
			require.NoError(t, b.server.Create(fmt.Sprintf("/t/ledger/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a%d-lock-000000000%d", i, i+1), id))
			require.NoError(t, b.server.Create(fmt.Sprintf("/t/n/plain%d", i), []byte(text)))
		}
		for i, data := range []string{"a\x00b", "\xff\xfe", `{"id":"<b>\u202e","host":"\u0007","since":"9999-12-31T23:59:59Z"}`, `{"id":1e999}`, "null", "__REVOKE__", evil, long} {
			require.NoError(t, b.server.Create(fmt.Sprintf("/t/ledger/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-00000000%d", 10+i), []byte(data)))
		}
		for _, name := range []string{"::error::FORGED", "##[error]x", "\u202e\u2066", "\u202e__lock__0000000000", long} {
			require.NoError(t, b.server.Create("/t/n/"+name, nil))
			require.NoError(t, b.server.Create("/t/ledger/"+name, nil))
		}
		for _, record := range []string{"/t/.locktree/stacks/shop", "/t/.locktree/history/shop", "/t/.locktree/apply/shop"} {
			stored, ok := b.server.Get(record)
			require.True(t, ok)
			tell := func(data []byte) {
				require.NoError(t, b.server.Set(record, data))
				hears(t, b, "plan", "history", "output", "output -json")
			}
			forgeries(t, stored.Data, evil, tell)
			forgeries(t, stored.Data, long, tell)
			require.NoError(t, b.server.Set(record, []byte(evil)))
			hears(t, b, "status", "plan", "history", "apply -auto-approve")
			require.NoError(t, b.server.Set(record, stored.Data))
		}
		hears(t, b, "status", "status /t", "status /t/ledger", "status -waiting", "doctor", "plan", "plan -destroy", "show", "show mutex.ledger", "output",
			"import -from=/t", "validate", "history", "status -json", "status -json /t", "doctor -json", "plan -json", "show -json", "apply -auto-approve", "destroy -auto-approve")
		b.write("q\n::error::FORGED\x1b[31m.locktree.hcl", "locals {\nw=1\n}\n")
		b.write("q\nFORGED.locktree.hcl", "locals {\nx=1\n}\n")
		b.write("r.locktree.hcl", "locals {\nx=1\n}\n")
		b.write("::error::FORGED.locktree.hcl", "locals {\ny=1\n}\n")
		hears(t, b, "fmt -check -diff", "validate")
		b.write("z\nFORGED.locktree.hcl", "locals {\n")
		hears(t, b, "fmt -check -diff", "validate", "plan", "init")
	})
}

// forgeries calls f with copies of a document. In each, one value is replaced by text, or a member of that text is added.
func forgeries(t *testing.T, data []byte, text string, f func([]byte)) {
	var doc any
	require.NoError(t, json.Unmarshal(data, &doc))
	var walk func(v any, put func(any))
	tell := func() {
		out, err := json.Marshal(doc)
		require.NoError(t, err)
		f(out)
	}
	walk = func(v any, put func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for key, one := range v {
				walk(one, func(x any) { v[key] = x })
			}
			v[text] = text
			tell()
			delete(v, text)
		case []any:
			for i := range v {
				walk(v[i], func(x any) { v[i] = x })
			}
		default:
			put(text)
			tell()
			put(v)
		}
	}
	walk(doc, func(x any) { doc = x })
}

// hears runs commands. None may print a forged line, or much text.
func hears(t *testing.T, b *bench, commands ...string) {
	t.Helper()
	for _, args := range commands {
		out, errs := b.runUnder(t.Context(), -1, strings.Fields(args)...)
		require.NotEmpty(t, out+errs, args)
		require.True(t, utf8.ValidString(out+errs), args)
		isJSON := strings.Contains(args, "-json")         // where a text is a value
		if strings.HasPrefix(args, "status") && !isJSON { // a table
			require.Less(t, len(out), 20_000, "%s: %s", args, out)
		}
		for line := range strings.Lines(out + errs) {
			text := strings.TrimLeft(line, " │")
			require.False(t, strings.HasPrefix(text, "::") || strings.HasPrefix(text, "FORGED") || !isJSON && (strings.Contains(line, "##[") || strings.Contains(line, "##vso[")), "%s: %q", args, line)
			require.False(t, strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }), "%s: %q", args, line)
			require.True(t, isJSON || len(line) < 25_000, args)
		}
	}
}
