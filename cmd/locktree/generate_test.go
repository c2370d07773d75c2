package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// hostile are pieces of node names that mean something to HCL, its templates, shells or addresses, and nothing to ZooKeeper.
var hostile = []string{"a", "B", "0", "-", "_", ".", " ", `"`, "'", "`", "$", "${", "%{", "}", "{", `\`, `\n`, "#", "//", "*", "[", "]", "=", "é", "日", "null", "mutex", "\u200b", "${var.zk}"}

func nodeName(t *rapid.T, taken map[string]bool) string {
	for {
		name := strings.ReplaceAll(strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 1, 6).Draw(t, "name"), ""), "/", "")
		if kind.ValidateName(name) != nil || taken[name] || name == "zookeeper" {
			continue
		}
		taken[name] = true
		return name
	}
}

// raw makes a tree of undeclared nodes below path. It returns how many there are, without contenders.
func raw(t *rapid.T, create func(path string, acl ...zk.ACL), path string, depth int) int {
	taken, n := map[string]bool{}, 0
	for range rapid.IntRange(1, 3).Draw(t, "children") {
		child := kind.JoinPath(path, nodeName(t, taken))
		acl := zk.WorldACL(zk.PermAll)
		if rapid.Bool().Draw(t, "closer") {
			acl = append(acl, rapid.SampledFrom([]zk.ACL{
				{Scheme: "digest", ID: `us"${er:` + strings.Repeat("A", 27) + "=", Perms: 7}, {Scheme: "ip", ID: "10.0.0.0/8", Perms: 1}, {Scheme: "digest", ID: "b:" + strings.Repeat("B", 27) + "=", Perms: 29},
			}).Draw(t, "entry"))
		}
		create(child, acl...)
		n++
		switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
		case what == 0 && depth > 0:
			n += raw(t, create, child, depth-1)
		case what == 1:
			marker := rapid.SampledFrom([]string{"-lock-", "-__READ__", "-latch-"}).Draw(t, "marker")
			create(child+"/_c_11111111-1111-4111-8111-111111111111"+marker+"0000000000", zk.WorldACL(zk.PermAll)...)
		}
	}
	return n
}

// For every tree, import writes a configuration that plans and applies, and then nothing is left to do. No node is lost, doubled, renamed
// or given other rights on the way to HCL and back.
func TestEveryTreeSurvivesTheWayToHCLAndBack(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	b := newBench(t, "")
	session, err := dialTest(t, b.server, "").Session(t.Context())
	require.NoError(t, err)
	create := func(path string, acl ...zk.ACL) {
		_, err := session.Create(b.t.Context(), path, nil, 0, acl)
		require.NoError(t, err, path)
	}
	tree := 0
	rapid.Check(t, func(t *rapid.T) {
		tree++
		root := fmt.Sprintf("/tree-%d", tree)
		create(root, zk.WorldACL(zk.PermAll)...)
		n := raw(t, create, root, 2)
		command := func(code int, args ...string) string {
			return tool(t, code, b.dir, []string{"LOCKTREE_VAR_zk=" + b.server.Addr(), "LOCKTREE_VAR_root=" + root, "ZOOKEEPER_SESSION=40"}, args...)
		}
		_ = os.Remove(filepath.Join(b.dir, "found.locktree.hcl"))
		found := []string{"import", "-from=" + root, "-generate=found.locktree.hcl"}
		if as := rapid.SampledFrom([]string{"mutex", "rwlock", "election", ""}).Draw(t, "idle"); as != "" {
			command(exit.OK, append(found, "-kind="+as)...)
		} else { // the comments are blocks, too
			command(exit.OK, found...)
			text := comments.ReplaceAllString(generated(b.dir), "$1$2")
			require.NoError(t, os.WriteFile(filepath.Join(b.dir, "found.locktree.hcl"), []byte(text), 0o600))
		}
		require.Contains(t, command(exit.OK, "plan"), fmt.Sprintf("Plan: %d to import, ", n))
		command(exit.OK, "apply", "-auto-approve")
		require.Contains(t, command(exit.OK, "plan", "-detailed-exitcode"), "No changes.")
		require.Equal(t, n, strings.Count(command(exit.OK, "show"), "\n# ")+1)
	})
}

var comments = regexp.MustCompile(`(?m)^( *)# ( *(?:(?:mutex|namespace) ".*" \{|import \{|\w+ += .*|\}))$`)

func generated(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "found.locktree.hcl"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// someText draws texts from all of Unicode that can name a node. Many are not in the form NFC.
var someText = rapid.Custom(func(t *rapid.T) string {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"cafe\u0301", "café", "300\u212a", "\u0301", "\u1161", "ﬁ", "=\u0338", "${", "%{", `\u0301`, `"`, "\ufffe"}),
		rapid.StringN(0, 4, -1), rapid.Map(rapid.Rune(), func(r rune) string { return norm.NFD.String(string(r)) }),
		rapid.Map(rapid.SliceOfN(rapid.RuneFrom(nil, unicode.Mn, unicode.Hangul), 1, 3), func(r []rune) string { return string(r) }))
	return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "")
}).Filter(func(text string) bool { return kind.ValidateName(text) == nil })

// textsKeepTheirBytes takes node names through import, plan, apply and generate, and passwords to a login. Each means the same
// bytes everywhere, or a command says why it refuses it.
func textsKeepTheirBytes(t *testing.T, o *office, seed int) {
	const open = "locktree {\n  stack = \"shop\"\n}\nvariable \"zk\" {}\nvariable \"root\" {}\nensemble \"main\" {\n  servers = [var.zk]\n  root = var.root\n}\n" +
		"principal \"anyone\" {\n  scheme = \"world\"\n}\nprincipal \"them\" {\n  scheme = \"digest\"\n  id = digest(\"u\", env(\"PW\"))\n}\n" +
		"acl \"open\" {\n  allow_world = true\n  grant {\n    to = [principal.anyone]\n    allow = \"admin\"\n  }\n}\n" +
		"acl \"theirs\" {\n  allow_lockout = true\n  grant {\n    to = [principal.them]\n    allow = \"admin\"\n  }\n}\n"
	names := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(someText, 12, 12).Example(seed))))
	hands, world := o.superuser(), zk.WorldACL(zk.PermAll)
	make := func(path string, flags int32) {
		_, err := hands.Create(t.Context(), path, nil, flags, world)
		require.NoError(t, err, "%q", path)
	}
	make(o.root, 0)
	make(o.root+"/n", 0)
	for _, name := range names {
		make(o.root+"/n/"+name, 0)
		make(o.root+"/n/"+name+"/_c_6d3f2f1e-0000-4000-8000-000000000001-lock-0000000001", zk.FlagEphemeral)
	}
	before := o.nodes(o.root)

	o.env = []string{"PW=any"}
	o.write("locks.locktree.hcl", open)
	said := o.must(exit.OK, nobodyIs, "import", "-from="+o.root, "-generate=found.locktree.hcl")
	kept := 0
	for _, name := range names {
		if config.TextError(name) == nil {
			kept++
		}
	}
	require.Equal(t, len(names)-kept, strings.Count(said, "left out: its name"), said)
	o.must(exit.OK, nobodyIs, "apply", "-auto-approve")
	ours := func(path string) bool {
		return path != o.root+"/.locktree" && !strings.HasPrefix(path, o.root+"/.locktree/")
	}
	require.Equal(t, before, slices.DeleteFunc(o.nodes(o.root), func(path string) bool { return !ours(path) }), "an apply made a second lock")
	require.Contains(t, o.must(exit.OK, nobodyIs, "plan"), "No changes")
	o.must(exit.OK, nobodyIs, "generate", "go", "-out=code.go")
	code, err := os.ReadFile(filepath.Join(o.dir, "code.go"))
	require.NoError(t, err)
	for _, name := range names {
		data, _, err := hands.Get(t.Context(), o.root+"/n/"+name)
		require.NoError(t, err)
		if config.TextError(name) == nil {
			require.NotEmpty(t, data, "%q was not taken over", name)
			require.Contains(t, string(code), strings.Trim(strconv.Quote(name), `"`))
		} else {
			require.Empty(t, data, "%q was taken over", name)
		}
	}

	for i, password := range rapid.SliceOfN(someText, 4, 4).Example(seed) {
		o.env = []string{"PW=" + password}
		o.write("secret.locktree.hcl", fmt.Sprintf("mutex \"s\" {\n  name = \"s%d-%d\"\n  acl = acl.theirs\n}\n", seed, i))
		if code, text := o.as(nobodyIs, "apply", "-auto-approve"); config.TextError(password) != nil {
			require.Equal(t, exit.Failed, code, text)
			require.Regexp(t, "form NFC|merges with the one before", text)
			continue
		} else {
			require.Equal(t, exit.OK, code, text)
		}
		data, _, err := o.session("u:"+password).Get(t.Context(), fmt.Sprintf("%s/s%d-%d", o.root, seed, i))
		require.NoError(t, err, "%q is not let in", password)
		require.NotEmpty(t, data)
	}
}

// The plan of an import made a second lock beside the held one, under the name's form NFC, and a digest was that of another password.
func TestNamesAndPasswordsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	for seed := range effort.Of(20, 2) {
		textsKeepTheirBytes(t, newOffice(t), seed)
	}
}

func TestNamesAndPasswordsKeepTheirBytesOnApacheZooKeeper(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	addr := realzk.Shared(t)
	for seed := range 10 {
		textsKeepTheirBytes(t, openOffice(t, addr, nil, fmt.Sprintf("/way-%d", seed)), seed)
	}
}
