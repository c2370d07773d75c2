package view_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/kind"
)

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// capture is a human view whose two streams are kept apart.
func capture(set func(*view.Stream)) (v *view.Human, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	streams := [2]view.Stream{{Writer: out, Width: 78}, {Writer: err, Width: 78}}
	for i := range streams {
		if set != nil {
			set(&streams[i])
		}
	}
	return view.NewHuman(streams[0], streams[1]), out, err
}

// now is a minute and a half after everything the fixtures say happened.
const now = int64(1_800_000_090_000)

func clock() time.Time { return time.UnixMilli(now).UTC() }

var busy = &kind.Usage{
	Holders: []kind.Party{{Name: "_c_1-lock-0000000001", ID: "host-a/4121", Session: 0x1000123, Token: 4294967301, Since: time.UnixMilli(now - 90_000)}},
	Waiters: []kind.Party{
		{Name: "_c_2-lock-0000000002", ID: "host-b/77", Session: 0x1000124, Token: 4294967302, Since: time.UnixMilli(now - 30_000)},
		{Path: "/locks/catalog/_c_3-__READ__0000000003", Name: "_c_3-__READ__0000000003", Session: 0x1000125, Token: 4294967303, Since: time.UnixMilli(now - 1_000), Shared: true},
	},
}
