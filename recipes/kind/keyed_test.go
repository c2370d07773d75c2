package kind_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/jute"
	"github.com/locktree/locktree/recipes/kind"
)

// keyNames are the vectors of docs/keyed.md, which the helper classes of other languages are tested with, too.
var keyNames = map[string]string{
	"":                "%",
	".":               "%2E",
	"..":              "%2E.",
	"...":             "...",
	"locks":           "%6Cocks",
	"leases":          "%6Ceases",
	"lock-0000000001": "%6Cock-0000000001",
	"x-12-0000000001": "%78-12-0000000001",
	"order-17":        "order-17",
	"a/b":             "a%2Fb",
	"100%":            "100%25",
	"%":               "%25",
	"%2E":             "%252E",
	"tab\there":       "tab%09here",
	"caf\u00e9":       "caf\u00e9",  // composed (NFC)
	"cafe\u0301":      "cafe\u0301", // decomposed (NFD): another key
	"\U0001F512":      "%F0%9F%94%92",
	" ":               " ",
	"\uE000":          "%EE%80%80",
}

func TestKeysHaveTheNamesThatAreDocumented(t *testing.T) {
	for key, name := range keyNames {
		require.Equal(t, name, kind.KeyName(key))
		got, ok := kind.ParseKeyName(name)
		require.True(t, ok, name)
		require.Equal(t, key, got)
	}
	for _, name := range []string{"", "%2", "%2e", "%41", "..", "a%2", "%FF", "%GG", "lock-0000000001", "locks"} {
		_, ok := kind.ParseKeyName(name)
		require.False(t, ok, name)
	}
}

func TestThePageHasTheVectors(t *testing.T) {
	page, err := os.ReadFile("../../docs/keyed.md")
	require.NoError(t, err)
	for key, name := range keyNames {
		if strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || r > 127 }) {
			continue // in words there
		}
		require.Contains(t, string(page), "| `"+name+"` |", key)
	}
	require.Contains(t, string(page), "`4/order-17` | `14/order-17`")
}

func FuzzKeyName(f *testing.F) {
	for key := range keyNames {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		path, err := (&kind.KeyedParams{Of: "mutex"}).Path("/locks/orders", key)
		if err != nil {
			return
		}
		require.Empty(t, jute.BadPath(path, false))
		got, ok := kind.ParseKeyName(kind.BaseName(path))
		require.True(t, ok)
		require.Equal(t, key, got)
		_, contender := kind.ParseContender(kind.BaseName(path))
		require.False(t, contender)
	})
}

func TestTheDirectoryOfAKeyIsItsCRC32(t *testing.T) {
	for fanout, want := range map[string]string{"": "/locks/orders/order-17", "16": "/locks/orders/4/order-17", "256": "/locks/orders/14/order-17"} {
		p := &kind.KeyedParams{Of: "mutex", Fanout: fanout}
		path, err := p.Path("/locks/orders", "order-17")
		require.NoError(t, err)
		require.Equal(t, want, path)
		if fanout != "" {
			require.Contains(t, (&kind.Payload{Params: p}).Children(), kind.BaseName(kind.ParentPath(path)))
		}
	}
	_, err := (&kind.KeyedParams{}).Path("/o", strings.Repeat("x", 513))
	require.ErrorContains(t, err, "at most 512")
	_, err = (&kind.KeyedParams{}).Path("/o", "\xff")
	require.ErrorContains(t, err, "UTF-8")
}

func TestAFamilySaysWhatItsKeysAre(t *testing.T) {
	for _, c := range []struct {
		p     kind.KeyedParams
		wrong string
	}{
		{kind.KeyedParams{Of: "mutex"}, ""},
		{kind.KeyedParams{Of: "rwlock", Preference: "writer"}, ""},
		{kind.KeyedParams{Of: "semaphore", Permits: 3}, ""},
		{kind.KeyedParams{Of: "semaphore"}, `"permits": is required`},
		{kind.KeyedParams{Of: "mutex", Permits: 3}, "a mutex has none"},
		{kind.KeyedParams{Of: "mutex", Preference: "writer"}, "a mutex has none"},
		{kind.KeyedParams{Of: "election"}, "must be one of"},
		{kind.KeyedParams{Of: "semaphore", Permits: 3, Common: kind.Common{Wire: "kazoo"}}, "beyond the limit"},
		{kind.KeyedParams{Of: "mutex", Fanout: "17"}, "must be one of"},
	} {
		if err := kind.Validate(&c.p); c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
			continue
		} else {
			require.NoError(t, err)
		}
		key := kind.Keyed.Key(&c.p)
		require.Equal(t, c.p.Of, key.Kind().Name)
		require.NoError(t, kind.Validate(key))
		data, err := (&kind.Payload{Params: &c.p}).Encode()
		require.NoError(t, err)
		back, err := kind.Decode(data)
		require.NoError(t, err)
		require.Empty(t, kind.Diff(&c.p, back.Params))
	}
}
