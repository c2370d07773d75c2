package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Who may write to the root may name an output, a node or a contender as he likes. No command hands a terminal what it would obey.
func TestNoCommandObeysWhatStandsInZooKeeper(t *testing.T) {
	const evil = "\x1b]0;owned\x07\u202e\u0085"
	quoted := []byte(`"\u001b]0;owned\u0007\u202e\u0085`)
	inFakeTime(t, oneLedger+"output \"where\" {\n  value = mutex.ledger.path\n}\noutput \"gone\" {\n  value = [mutex.ledger.path]\n}\n", func(t *testing.T, b *bench) {
		b.run(exitOK, "apply", "-auto-approve")
		const record = "/t/.locktree/stacks/shop"
		stored, ok := b.server.Get(record)
		require.True(t, ok)
		data := bytes.ReplaceAll(bytes.ReplaceAll(stored.Data, []byte(`"gone`), append(quoted, "gone"...)), []byte(`"/t/ledger"`), append(quoted, '"'))
		require.NotEqual(t, stored.Data, data)
		require.NoError(t, b.server.Set(record, data))
		for _, dir := range []string{"/t/ledger/", "/t/"} {
			for _, name := range []string{"\u202e\u2066", "\u202e__lock__0000000001", "_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-0000000002"} {
				require.NoError(t, b.server.Create(dir+name, []byte(evil)))
			}
		}
		for _, args := range []string{
			"status", "status -json", "status /t", "status -json /t", "doctor", "doctor -json",
			"plan", "plan -json", "plan -destroy", "show", "show -json", "show mutex.ledger", "output", "output -json",
			"import -from=/t", "apply -auto-approve", "destroy -auto-approve",
		} {
			out, errs := b.runUnder(t.Context(), -1, strings.Fields(args)...)
			require.NotEmpty(t, out+errs, args)
			require.True(t, utf8.ValidString(out+errs), args)
			for _, r := range out + errs {
				require.True(t, r == '\n' || unicode.IsPrint(r), "%s: %q in:\n%q", args, r, out+errs)
			}
		}
	})
}
