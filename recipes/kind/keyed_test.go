package kind_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/paths"
	"github.com/locktree/locktree/recipes/kind"
)

// keyVector is a line of testdata/interop/keys.tsv, which also tests the helpers of other languages.
type keyVector struct{ key, name, of16, of256 string }

func keyVectors(t testing.TB) (all []keyVector) {
	file, err := os.ReadFile("../../testdata/interop/keys.tsv")
	require.NoError(t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(string(file)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		column := strings.Split(line, "\t")
		require.Len(t, column, 5, line)
		key, err := hex.DecodeString(strings.Trim(column[0], "-"))
		require.NoError(t, err)
		all = append(all, keyVector{string(key), column[1], column[2], column[3]})
	}
	return all
}

func TestKeysHaveTheNamesThatAreDocumented(t *testing.T) {
	for _, v := range keyVectors(t) {
		for fanout, dir := range map[string]string{"": "/f/", "16": "/f/" + v.of16 + "/", "256": "/f/" + v.of256 + "/"} {
			path, err := (&kind.KeyedParams{Fanout: fanout}).Path("/f", v.key)
			if v.name == "" {
				require.ErrorContains(t, err, "at most 512")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, dir+v.name, path)
		}
		if got, ok := kind.ParseKeyName(v.name); v.name != "" {
			require.True(t, ok, v.name)
			require.Equal(t, v.key, got)
		}
	}
	for _, name := range []string{"", "%2", "%2e", "%41", "..", "a%2", "%FF", "%GG", "lock-0000000001", "locks"} {
		_, ok := kind.ParseKeyName(name)
		require.False(t, ok, name)
	}
}

// The page shows some of the vectors: each of its rows is one, unless it describes the key in words.
func TestThePageHasTheVectors(t *testing.T) {
	page, err := os.ReadFile("../../docs/keyed.md")
	require.NoError(t, err)
	known := map[string]string{}
	for _, v := range keyVectors(t) {
		known[v.key] = v.name
	}
	shown := 0
	for row := range strings.Lines(string(page)) {
		if cells := strings.Split(row, "`"); strings.HasPrefix(row, "| `") && len(cells) == 5 {
			require.Equal(t, known[cells[1]], cells[3], row)
			shown++
		}
	}
	require.Greater(t, shown, 10)
	require.Contains(t, string(page), "`4/order-17` | `14/order-17`")
}

func FuzzKeyName(f *testing.F) {
	for _, v := range keyVectors(f) {
		f.Add(v.key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		path, err := (&kind.KeyedParams{Of: "mutex"}).Path("/locks/orders", key)
		if err != nil {
			return
		}
		require.Empty(t, paths.Bad(path, false))
		got, ok := kind.ParseKeyName(kind.BaseName(path))
		require.True(t, ok)
		require.Equal(t, key, got)
		_, contender := kind.ParseContender(kind.BaseName(path))
		require.False(t, contender)
	})
}

func TestTheDirectoriesOfAFamilyAreThoseOfItsKeys(t *testing.T) {
	for _, fanout := range []string{"16", "256"} {
		p := &kind.KeyedParams{Of: "mutex", Fanout: fanout}
		path, err := p.Path("/locks/orders", "order-17")
		require.NoError(t, err)
		require.Contains(t, (&kind.Payload{Params: p}).Children(), kind.BaseName(kind.ParentPath(path)))
	}
	_, err := (&kind.KeyedParams{}).Path("/o", "\xff")
	require.ErrorContains(t, err, "UTF-8")
}

func TestAFamilySaysWhatItsKeysAre(t *testing.T) {
	for _, c := range []struct {
		p     kind.KeyedParams
		wrong string
	}{
		{kind.KeyedParams{Of: "mutex"}, ""},
		{kind.KeyedParams{Of: "rwlock"}, ""},
		{kind.KeyedParams{Of: "semaphore", Permits: 3}, ""},
		{kind.KeyedParams{Of: "semaphore"}, `"permits": is required`},
		{kind.KeyedParams{Of: "mutex", Permits: 3}, "a mutex has none"},
		{kind.KeyedParams{Of: "election"}, "must be one of"},
		{kind.KeyedParams{Of: "semaphore", Permits: 3, Common: kind.Common{Wire: "kazoo"}}, "exceed the limit"},
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
