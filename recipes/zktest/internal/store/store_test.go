package store_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/internal/paths"
	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// entry and model are the tree as a map of paths, for nodes that everybody may change.
type entry struct {
	data    string
	version int32
	made    int // children, ever
	owner   int64
}

type model map[string]entry

func (m model) apply(session int64, op store.Op) (string, wire.Code) {
	switch op := op.(type) {
	case store.Create:
		at, parent := op.Path, m[path.Dir(op.Path)]
		if _, ok := m[path.Dir(at)]; !ok {
			return "", wire.CodeNoNode
		}
		if op.Flags&2 != 0 {
			at = fmt.Sprintf("%s%010d", at, parent.made)
		}
		if _, ok := m[at]; ok {
			return "", wire.CodeNodeExists
		}
		if parent.owner != 0 {
			return "", wire.CodeNoChildrenForEphemerals
		}
		n := entry{data: string(op.Data)}
		if op.Flags&1 != 0 {
			n.owner = session
		}
		parent.made++
		m[path.Dir(at)], m[at] = parent, n
		return at, wire.CodeOK
	case store.Delete:
		_, code := m.find(op.Path, op.Version)
		switch {
		case code != wire.CodeOK:
			return "", code
		case m.below(op.Path) > 0:
			return "", wire.CodeNotEmpty
		}
		delete(m, op.Path)
		return op.Path, wire.CodeOK
	case store.SetData:
		n, code := m.find(op.Path, op.Version)
		if code == wire.CodeOK {
			m[op.Path] = entry{string(op.Data), n.version + 1, n.made, n.owner}
		}
		return op.Path, code
	case store.Check:
		_, code := m.find(op.Path, op.Version)
		return op.Path, code
	}
	panic(op)
}

func (m model) find(at string, version int32) (entry, wire.Code) {
	n, ok := m[at]
	switch {
	case !ok:
		return n, wire.CodeNoNode
	case version != -1 && version != n.version:
		return n, wire.CodeBadVersion
	}
	return n, wire.CodeOK
}

func (m model) below(at string) (n int) {
	for other := range m {
		if strings.HasPrefix(other, at+"/") {
			n++
		}
	}
	return n
}

// read is what a tree holds, as a model.
func read(t *store.Tree) model {
	m := model{}
	var walk func(at string)
	walk = func(at string) {
		n, _ := t.Lookup(at)
		m[at] = entry{data: string(n.Data), version: n.Stat.Version, owner: n.Stat.EphemeralOwner, made: int(n.Stat.Cversion+n.Stat.NumChildren) / 2}
		for _, name := range n.Children {
			if child := store.JoinPath(at, name); child != "/zookeeper" {
				walk(child)
			}
		}
	}
	walk("/")
	return m
}

var (
	genPath = rapid.SampledFrom([]string{"/a", "/b", "/a/a", "/a/b", "/a/b/c", "/b/c"})
	genData = rapid.Custom(func(t *rapid.T) []byte { return []byte(rapid.SampledFrom([]string{"", "x", "yy"}).Draw(t, "data")) })
	genOp   = rapid.Custom(func(t *rapid.T) store.Op {
		at, version := genPath.Draw(t, "path"), rapid.SampledFrom([]int32{-1, -1, 0, 1}).Draw(t, "version")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return store.Delete{Path: at, Version: version}
		case 1:
			return store.SetData{Path: at, Data: genData.Draw(t, "data"), Version: version}
		case 2:
			return store.Check{Path: at, Version: version}
		}
		return store.Create{Path: at, Data: genData.Draw(t, "data"), ACL: store.OpenACL, Flags: rapid.Int32Range(0, 3).Draw(t, "flags")}
	})
)

// TestTheTreeIsAMapOfPaths plays operations, transactions and ends of sessions to a tree, which needs no server for that, and to a map.
func TestTheTreeIsAMapOfPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, want := store.New(store.Rules{}), model{"/": {made: 1}}
		want["/"] = read(tree)["/"]
		var at store.Stamp
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			at.Zxid++
			at.Millis++
			earlier := tree.Clone()
			before, was := maps.Clone(want), read(tree)
			by := store.Caller{Session: rapid.Int64Range(1, 2).Draw(t, "session")}
			var changes []store.Change
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				changes = tree.EndSession(by.Session, at)
				maps.DeleteFunc(want, func(_ string, n entry) bool { return n.owner == by.Session })
			case 1, 2, 3:
				ops := rapid.SliceOfN(genOp, 0, 5).Draw(t, "ops")
				var results []store.Result
				var code wire.Code
				results, code, changes = tree.Multi(by, at, ops)
				for i, op := range ops {
					p, c := want.apply(by.Session, op)
					if c != wire.CodeOK {
						require.Equal(t, c, code)
						require.Len(t, results, i)
						require.Empty(t, changes)
						want = before
						break
					}
					require.Equal(t, p, results[i].Path)
				}
			default:
				op := genOp.Draw(t, "op")
				var result store.Result
				result, changes = tree.Apply(by, at, op)
				p, code := want.apply(by.Session, op)
				require.Equal(t, code, result.Code)
				if code == wire.CodeOK {
					require.Equal(t, p, result.Path)
				}
			}
			now := read(tree)
			require.Equal(t, want, now)
			require.Equal(t, was, read(earlier), "a copy stays as it is")
			told := map[string]bool{}
			for _, c := range changes {
				require.Equal(t, at.Zxid, c.Zxid)
				require.True(t, c.VisibleTo(by))
				told[c.Path] = true
			}
			for p := range now {
				if now[p] != was[p] {
					require.True(t, told[p], "nobody is told that %s has changed", p)
				}
			}
			for _, session := range tree.Owners() {
				require.True(t, slices.IsSorted(tree.Owned(session)))
			}
		}
	})
}

// TestTheClientsRulesForPathsAndTheServersAgree: they share no line.
func TestTheClientsRulesForPathsAndTheServersAgree(t *testing.T) {
	element := rapid.OneOf(rapid.SampledFrom([]string{"", "a", ".", "..", "...", ".a", "\x00", "\x1f", "\x7f", "\u009f", "\ud7ff", "\ue000", "\uf900", "\uffef", "\ufff0", "😀", "\xff"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"", "/", "/", "/"}).Draw(t, "start")
		for i, name := range rapid.SliceOfN(element, 0, 4).Draw(t, "names") {
			if i > 0 {
				path += "/"
			}
			path += name
		}
		require.Equal(t, paths.Bad(path, false) == "", store.ValidPath(path), "%q", path)
	})
}
