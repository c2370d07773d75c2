package kind_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// A node without limits is written as versions before limits wrote it: an upgrade changes no node.
func TestLimitsAreWrittenOnlyWhereTheyAreStated(t *testing.T) {
	p := &kind.MutexParams{}
	data, err := (&kind.Payload{Params: p}).Encode()
	require.NoError(t, err)
	require.Contains(t, string(data), `"spec":{"description":"","max_waiters":0,"wire":"curator"}`)
	read, err := kind.Decode(data)
	require.NoError(t, err)
	require.Zero(t, read.Limits())
	require.Zero(t, (*kind.Payload)(nil).Limits(), "nothing is declared")

	p.Limits = kind.Limits{MaxHold: "10m", MaxWait: "1.5s", Owner: "Team A", Runbook: "https://example.com/a?b#c"}
	data, err = (&kind.Payload{Params: p}).Encode()
	require.NoError(t, err)
	read, err = kind.Decode(data)
	require.NoError(t, err)
	require.Equal(t, p.Limits, read.Limits())
	require.Equal(t, []time.Duration{10 * time.Minute, 1500 * time.Millisecond}, []time.Duration{read.Limits().Hold(), read.Limits().Wait()})
}

func TestLimitsThatNobodyCouldUseAreRefused(t *testing.T) {
	for name, wrong := range map[string][]string{
		"max_hold": {"10", "0s", "-1m", "10 minutes", "1d", "9999999h", " 1m"},
		"max_wait": {"forever"},
		"owner":    {"a\nb", "\x1b[31mred", "a\u202eb", "\x00"},
		"runbook": {"wiki", "/wiki", "//wiki.example.com", "https:///page", "ftp://example.com", "javascript:alert(1)", "mailto:a@example.com",
			"https://u:p4ss@example.com/", "https://u@example.com", "https://u:p4ss@exa mple.com", "https://example.com/\u202e"},
	} {
		for _, text := range wrong {
			p := &kind.NamespaceParams{}
			for _, f := range p.Fields() {
				if f.Name == name {
					err := f.Set(text)
					var pe *kind.ParamError
					require.ErrorAs(t, err, &pe, "%s = %q", name, text)
					require.False(t, strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == '\u202e' }), "%q", err)
					require.NotContains(t, err.Error(), "p4ss")
				}
			}
			require.Zero(t, p.Limits)
		}
	}
}
