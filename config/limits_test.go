package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// An excess is refused with its place, and a large configuration within the limits loads.
func TestLimitsAreToldWithAPlace(t *testing.T) {
	deep := strings.Repeat
	for name, c := range map[string]struct{ src, want string }{
		"nodes":              {"locals { r = { for i in range(600) : i => i } }\nnamespace \"n\" {\n  for_each = local.r\n  mutex \"m\" { for_each = local.r }\n}", "Too many nodes"},
		"an error in a loop": {"locals {\n  wide = [for p in setproduct(range(100), range(1000)) : p[1]]\n  a = [for w in local.wide : w.nothing]\n}", "Unsupported attribute"},
		"long chain":         {"locals {\n" + chain(20_000) + "}", ""},
		"long list":          {"locals { a = [" + deep("1,", 100_000) + "] }", ""},
		"many names":         {"locals { a = toset([for p in setproduct(range(100), range(1000)) : \"${p[0]}-${p[1]}\"]) }", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, diags := loadText(preamble+c.src, config.Options{Environ: testEnviron})
			if c.want == "" {
				require.False(t, diags.HasErrors(), "%v", diags)
				return
			}
			require.Contains(t, summaries(diags), c.want)
			require.Less(t, len(diags), 12, "one error, one message")
			for _, d := range diags {
				require.Less(t, len(d.Detail), 2000)
			}
		})
	}
}

func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d = local.a%d\n", i, i+1)
	}
	fmt.Fprintf(&b, "a%d = 1\n", n)
	return b.String()
}

func summaries[D ~[]E, E interface{ Error() string }](diags D) string {
	var b strings.Builder
	for _, d := range diags {
		b.WriteString(d.Error() + "\n")
	}
	return b.String()
}

// docs/language.md lists a bound for every input: as much as that loads, and one more is refused before it is made. Deep nesting overflowed
// the stack, and products the memory. Both ended the program with the exit code of "there are changes".
func TestEachLimitHoldsAndOneBeyondIsRefused(t *testing.T) {
	type files = map[string]string
	x := strings.Repeat
	shows := func(expr string) files { return files{"o.locktree.hcl": "output \"o\" {\n  value = " + expr + "\n}\n"} }
	list := func(n int, item string) string {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(item, i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	for name, c := range map[string]struct {
		bound int
		of    func(n int) files
		want  string
	}{
		"a file":              {16 << 20, func(n int) files { return files{"a.locktree.hcl": "#" + x("x", n-1)} }, "larger than 16 MiB"},
		"a file of variables": {16 << 20, func(n int) files { return files{"a.auto.ltvars": "#" + x("x", n-1)} }, "larger than 16 MiB"},
		"what file() reads":   {16 << 20, func(n int) files { f := shows(`length(file("f"))`); f["f"] = x("x", n); return f }, "larger than 16 MiB"},
		"a password": {16 << 20, func(n int) files {
			return files{"secret": x("x", n), "a.locktree.hcl": "ensemble \"b\" {\n  auth \"digest\" {\n    username = \"u\"\n    password_file = \"secret\"\n  }\n}\n"}
		}, "larger than 16 MiB"},
		"files": {999, func(n int) files { // with the main one
			f := files{}
			for i := range n {
				f[fmt.Sprintf("%d.locktree.hcl", i)] = ""
			}
			return f
		}, "Too many files"},
		// An output's block is a level itself.
		"parentheses":  {999, func(n int) files { return shows(x("(", n) + "1" + x(")", n)) }, "Nested too deep"},
		"lists":        {998, func(n int) files { return shows("can(" + x("[", n) + x("]", n) + ")") }, "Nested too deep"},
		"objects":      {999, func(n int) files { return shows("can(" + x("{ a = ", n-1) + "1" + x("}", n-1) + ")") }, "Nested too deep"},
		"nots":         {999, func(n int) files { return shows(x("!", n) + "true") }, "Nested too deep"},
		"negatives":    {999, func(n int) files { return shows(x("-", n) + "1") }, "Nested too deep"},
		"sums":         {999, func(n int) files { return shows("1" + x("+1", n)) }, "Nested too deep"},
		"sum in lines": {998, func(n int) files { return shows("(1" + x("\n+1", n) + ")") }, "Nested too deep"},
		"a for":        {998, func(n int) files { return shows("{for k in [1] : k => 1" + x("\n+1", n-1) + "}") }, "Nested too deep"},
		"choices":      {999, func(n int) files { return shows(x("true ? 1 : ", n) + "1") }, "Nested too deep"},
		"indexes":      {999, func(n int) files { return shows("can([]" + x("[0]", n-2) + ")") }, "Nested too deep"},
		"templates":    {998 / 2, func(n int) files { return shows(x("\"${", n) + "1" + x("}\"", n)) }, "Nested too deep"},
		"directives":   {997, func(n int) files { return shows("\"" + x("%{if true}", n) + "x" + x("%{endif}", n) + "\"") }, "Nested too deep"},
		"JSON":         {998, func(n int) files { return files{"o.locktree.json": `{"locals": {"a": ` + x("[", n) + x("]", n) + `}}`} }, "Nested too deep"},
		"JSON template": {998, func(n int) files {
			return files{"o.locktree.json": `{"locals": {"a": "${` + x("(", n+1) + "1" + x(")", n+1) + `}"}}`}
		}, "Nested too deep"},
		"a type in JSON": {1000, func(n int) files {
			return files{"v.locktree.json": `{"variable": {"v": {"default": null, "type": "` + x("list(", n) + "any" + x(")", n) + `"}}}`}
		}, "Nested too deep"},
		"an address in JSON": {1000, func(n int) files { // 1,000: no parentheses; 1,001: one pair too many
			return files{"v.locktree.json": `{"moved": {"from": "` + x("(", n*(n-1000)) + `mutex.a` + x(")", n*(n-1000)) + `", "to": "mutex.b"}, "mutex": {"b": {}}}`}
		}, "Invalid address"},
		"jsondecode": {1000, func(n int) files {
			f := shows(`can(jsondecode(file("f")).x) ? 1 : length(jsondecode(file("f")))`)
			f["f"] = x("[", n) + x("]", n)
			return f
		}, "nested more than 1000 levels"},
		"variables": {1000, func(n int) files { return files{"a.auto.ltvars": "b = " + x("(", n) + "1" + x(")", n)} }, "Nested too deep"},
		"nodes": {200_000, func(n int) files { // file() could not read the names of as many nodes as there may be
			return files{"m.locktree.hcl": "mutex \"m\" {\n  for_each = toset(jsondecode(file(\"names\")))\n}\n", "names": list(n, `"order-%06d"`)}
		}, "Too many nodes"},
		"levels of modules": {16, func(n int) files {
			f := files{"m.locktree.hcl": "module \"m\" { source = \"./m1\" }\n", fmt.Sprintf("m%d/m.locktree.hcl", n): "locals {}\n"}
			for i := 1; i < n; i++ {
				f[fmt.Sprintf("m%d/m.locktree.hcl", i)] = fmt.Sprintf("module \"m\" { source = \"../m%d\" }\n", i+1)
			}
			return f
		}, "Too many modules"},
		"module blocks": {2000, func(n int) files {
			f := files{"m/m.locktree.hcl": "locals {}\n"}
			for i := range n {
				f["m.locktree.hcl"] += fmt.Sprintf("module \"m%d\" { source = \"./m\" }\n", i)
			}
			return f
		}, "Too many modules"},
		"modules that each call the next one twice": {9, func(n int) files { // 1024 calls at the tenth level, beside all above it
			f := files{"m.locktree.hcl": "module \"m\" { source = \"./m0\" }\n", fmt.Sprintf("m%d/m.locktree.hcl", n): "locals {}\n"}
			for i := range n {
				f[fmt.Sprintf("m%d/m.locktree.hcl", i)] = fmt.Sprintf("module \"a\" { source = \"../m%[1]d\" }\nmodule \"b\" { source = \"../m%[1]d\" }\n", i+1)
			}
			return f
		}, "Too many modules"},
		"setproduct": {200_000, func(n int) files {
			return shows(fmt.Sprintf("length(setproduct(range(1000), range(200), [for i in range(%d) : i]))", 1+(n-200_000)))
		}, "more than 200000 elements"},
		"range":     {1024, func(n int) files { return shows(fmt.Sprintf("length(range(%d))", n)) }, "more than 1024"},
		"join":      {8 << 20, func(n int) files { f := shows(`length(join(file("f"), ["", ""]))`); f["f"] = x("x", n); return f }, "more than 16 MiB"},
		"replace":   {8<<20 - 1, func(n int) files { f := shows(`length(replace("aa", "a", file("f")))`); f["f"] = x("x", n); return f }, "more than 16 MiB"},
		"a pattern": {8<<20 - 1, func(n int) files { f := shows(`length(replace("aa", "/a/", file("f")))`); f["f"] = x("x", n); return f }, "more than 16 MiB"},
		"indent":    {16<<20 - 2, func(n int) files { return shows(fmt.Sprintf(`length(indent(%d, "a\n"))`, n)) }, "more than 16 MiB"},
		"format":    {16<<20 - 10, func(n int) files { return shows(fmt.Sprintf(`length(format("%%%ds", "a"))`, n)) }, "more than 16 MiB"},
		"servers": {100, func(n int) files {
			return files{"e.locktree.hcl": "ensemble \"b\" {\n  servers = " + list(n, `"h%d:2181"`) + "\n}\n"}
		}, "Too many servers"},
		"principals": {1000, func(n int) files {
			return files{"a.locktree.hcl": "acl \"a\" {\n  grant {\n    to    = " + list(n, `{ name = "x", scheme = "sasl", id = "u%d" }`) + "\n    allow = \"admin\"\n  }\n}\nmutex \"m\" { acl = acl.a }\n"}
		}, "Access list too long"},
		"admins": {500, func(n int) files {
			return files{"a.locktree.hcl": "ensemble \"b\" {\n  admins = " + list(n, `{ name = "x", scheme = "sasl", id = "u%d" }`) + "\n}\n"}
		}, "Access list too long"},
		"a path": {1024, func(n int) files {
			return files{"a.locktree.hcl": x("namespace \"a\" {\nname = \""+x("x", 203)+"\"\n", 5) + "mutex \"m\" { name = \"" + x("x", n-5*204-1) + "\" }\n" + x("}\n", 5)}
		}, "Path too long"},
		"a stack": {128, func(int) files { return nil }, "Invalid stack"},
		"a name":  {255, func(n int) files { return files{"a.locktree.hcl": "mutex \"m\" { name = \"" + x("x", n) + "\" }\n"} }, "Illegal znode name"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "nodes" { // which takes half a minute
				effort.Proof(t, effort.Unraced)
			}
			for _, n := range []int{c.bound, c.bound + 1} {
				dir := writeDir(t, c.of(n))
				main := preamble
				if name == "a stack" {
					main = strings.Replace(preamble, `"test"`, `"`+x("x", n)+`"`, 1)
				}
				require.NoError(t, os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte(main+"variable \"b\" { default = 1 }\n"), 0o600))
				_, diags := config.Load(dir, config.Options{Environ: testEnviron})
				if n == c.bound {
					require.False(t, diags.HasErrors(), "%d: %s", n, summaries(diags))
					continue
				}
				require.Contains(t, summaries(diags), c.want, n)
				require.Less(t, len(summaries(diags)), 2000, "one error, one message")
			}
		})
	}
}

// A module without nodes costs evaluation, too, and each of its instances counts.
func TestInstancesOfModulesAreCounted(t *testing.T) {
	_, diags := config.LoadFS(fstest.MapFS{
		"main.locktree.hcl":  {Data: []byte(preamble + "module \"m\" {\n  source   = \"./a\"\n  for_each = { a = 1, b = 200 }\n  n        = each.value\n}\n")},
		"a/m.locktree.hcl":   {Data: []byte("variable \"n\" {}\nmodule \"m\" {\n  source   = \"./b\"\n  for_each = { for p in setproduct(range(var.n), range(1000)) : \"${p[0]}-${p[1]}\" => 1 }\n}\n")},
		"a/b/m.locktree.hcl": {Data: []byte("locals { x = 1 }\n")},
	}, ".", config.Options{Environ: testEnviron})
	require.Contains(t, summaries(diags), "Too many nodes")

	// No documentation said how many there may be.
	page, err := os.ReadFile("../docs/language.md")
	require.NoError(t, err)
	most := regexp.MustCompile(`at most ([0-9,]+) nodes`).FindStringSubmatch(string(page))
	require.NotNil(t, most)
	require.Contains(t, diags[0].Detail, "more than "+strings.ReplaceAll(most[1], ",", "")+" nodes and modules")
}

// writtenOut is n locks as a generator writes them, a thousand in each namespace.
func writtenOut(n int) string {
	var b strings.Builder
	b.WriteString(preamble)
	for i := range n {
		if i%1000 == 0 {
			fmt.Fprintf(&b, "namespace \"n%d\" {\n", i/1000)
		}
		fmt.Fprintf(&b, "  mutex \"lock-%d\" {\n    description = \"Lock %d.\"\n  }\n", i, i)
		if i%1000 == 999 || i == n-1 {
			b.WriteString("}\n")
		}
	}
	return b.String()
}

// repeated is n locks by for_each.
func repeated(n int) string {
	return preamble + fmt.Sprintf("mutex \"m\" {\n  for_each    = { for p in setproduct(range(%d), range(1000)) : \"k${p[0]}-${p[1]}\" => p[1] }\n  description = \"Lock ${each.value}.\"\n}\n", n/1000)
}

// BenchmarkLoad also prints how much memory the result keeps for the plan that follows.
func BenchmarkLoad(b *testing.B) {
	for _, shape := range []struct {
		name  string
		write func(int) string
	}{{"written", writtenOut}, {"for_each", repeated}} {
		for _, n := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				src := shape.write(n)
				b.ReportAllocs()
				for b.Loop() {
					var before, after runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&before)
					c, diags := loadText(src, config.Options{Environ: testEnviron})
					require.False(b, diags.HasErrors(), "%v", diags)
					runtime.GC()
					runtime.ReadMemStats(&after)
					b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "live-MiB")
					runtime.KeepAlive(c)
				}
			})
		}
	}
}

// The parsed files must be gone when Load returns: the plan needs the memory. A lock takes some 0.5 KiB, and 1.8 KiB if the parsed files
// are kept.
func TestLoadKeepsNoParsedFiles(t *testing.T) {
	const n = 20_000
	var before, after runtime.MemStats
	src := writtenOut(n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	c, diags := loadText(src, config.Options{Environ: testEnviron})
	require.False(t, diags.HasErrors(), "%v", diags)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Len(t, c.Ensembles[0].Tree.Nodes, n+n/1000)
	require.Less(t, (int64(after.HeapAlloc)-int64(before.HeapAlloc))/n, int64(1024), "bytes a lock")
	runtime.KeepAlive(c)
}
