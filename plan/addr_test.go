package plan

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPartsOfAnAddress(t *testing.T) {
	for _, c := range []struct{ addr, base, block, module, typ, name, key string }{
		{"mutex.a", "mutex.a", "mutex.a", "", "mutex", "a", ""},
		{`mutex.a["k"]`, "mutex.a", "mutex.a", "", "mutex", "a", "k"},
		{`module.t["x.y"].namespace.p.mutex.a["k\"].b["]`, `module.t["x.y"].namespace.p.mutex.a`, "module.t.namespace.p.mutex.a", `module.t["x.y"]`, "mutex", "a", `k"].b[`},
		{`module.a.module.b["1"]`, "module.a.module.b", "module.a.module.b", `module.a.module.b["1"]`, "module", "b", "1"},
		// It was taken for an element of a type 'b': the view cut at the first bracket.
		{`mutex.a["[\"b.c\"]"]`, "mutex.a", "mutex.a", "", "mutex", "a", `["b.c"]`},
		{"mutex", "mutex", "mutex", "", "mutex", "", ""},
		{"", "", "", "", "", "", ""},
	} {
		a := Addr(c.addr)
		key, keyed := a.Key()
		require.Equal(t, []string{c.base, c.block, c.module, c.typ, c.name, c.key},
			[]string{string(a.Base()), string(a.Block()), string(a.Module()), a.Type(), a.Name(), key}, c.addr)
		require.Equal(t, c.key != "", keyed, c.addr)
	}
}

// Whatever a key holds, it is the key; whatever an address is, it can be asked.
func TestNoKeyPosesAsAnAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, outer := rapid.String().Draw(t, "key"), rapid.StringOf(rapid.RuneFrom([]rune(`a."[]\`))).Draw(t, "outer")
		base := Addr("namespace.n[" + strconv.Quote(outer) + "].mutex.m")
		a := base + Addr("["+strconv.Quote(key)+"]")
		got, ok := a.Key()
		require.True(t, ok)
		if strings.ToValidUTF8(key, "") == key {
			require.Equal(t, key, got)
		}
		require.Equal(t, base, a.Base())
		require.Equal(t, Addr("namespace.n.mutex.m"), a.Block())
		for i := range a { // cut anywhere
			for _, part := range []Addr{a[:i], a[i:]} {
				part.Key()
				require.LessOrEqual(t, len(part.Base())+len(part.Block())+len(part.Module()), 3*len(part)+len(part))
			}
		}
	})
}
