package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// What is refused before it is evaluated, and what is large and loads.
func TestLimitsAreToldWithAPlace(t *testing.T) {
	deep := strings.Repeat
	for name, c := range map[string]struct{ src, want string }{
		"nodes":              {"locals { r = { for i in range(600) : i => i } }\nnamespace \"n\" {\n  for_each = local.r\n  mutex \"m\" { for_each = local.r }\n}", "Too many nodes"},
		"principals":         {"acl \"a\" {\n  grant {\n    to    = [for p in setproduct(range(10), range(1000)) : { name = \"x\", scheme = \"sasl\", id = \"u${p[0]}-${p[1]}\" }]\n    allow = \"admin\"\n  }\n}\nmutex \"m\" { acl = acl.a }", "Access list too long"},
		"long path":          {deep("namespace \"a\" {\nname = \""+deep("x", 200)+"\"\n", 6) + deep("}\n", 6), "Path too long"},
		"long name":          {"mutex \"m\" { name = \"" + deep("x", 300) + "\" }", "Illegal znode name"},
		"long stack":         {"locktree { stack = \"" + deep("x", 200) + "\" }", "Invalid stack"},
		"range":              {"locals { a = range(2000000000) }", "more than 1024"},
		"an error in a loop": {"locals {\n  wide = [for p in setproduct(range(100), range(1000)) : p[1]]\n  a = [for w in local.wide : w.nothing]\n}", "Unsupported attribute"},
		"long chain":         {"locals {\n" + chain(20_000) + "}", ""},
		"long list":          {"locals { a = [" + deep("1,", 100_000) + "] }", ""},
		"many names":         {"locals { a = toset([for p in setproduct(range(100), range(1000)) : \"${p[0]}-${p[1]}\"]) }", ""},
	} {
		t.Run(name, func(t *testing.T) {
			src := preamble + c.src
			if strings.HasPrefix(c.src, "locktree") {
				src = c.src
			}
			_, diags := loadText(src, config.Options{Environ: testEnviron})
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

func TestLargeFilesAreNotRead(t *testing.T) {
	_, diags := loadText(strings.Repeat("#\n", 16<<20), config.Options{})
	require.Contains(t, summaries(diags), "larger than 16 MiB")
}

// Modules that each call the next one twice are a million calls at the twentieth.
func TestModulesThatCallMoreAndMoreAreRefused(t *testing.T) {
	for name, calls := range map[string]int{"deep": 1, "wide": 2, "wider": 50} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"main.locktree.hcl": {Data: []byte(preamble + "module \"m\" {\nsource = \"./m0\"\n}\n")}}
			for i := range 20 {
				var b strings.Builder
				for c := range calls {
					fmt.Fprintf(&b, "module \"m%d\" {\nsource = \"../m%d\"\n}\n", c, i+1)
				}
				files[fmt.Sprintf("m%d/m.locktree.hcl", i)] = &fstest.MapFile{Data: []byte(b.String())}
			}
			files["m20/m.locktree.hcl"] = &fstest.MapFile{Data: []byte("locals {\n}\n")}
			_, diags := config.LoadFS(files, ".", config.Options{Environ: testEnviron})
			require.Contains(t, summaries(diags), "Too many modules")
			require.Less(t, len(diags), 100)
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

	// How many there may be stood in no documentation.
	page, err := os.ReadFile("../docs/language.md")
	require.NoError(t, err)
	most := regexp.MustCompile(`at most ([0-9,]+) nodes`).FindStringSubmatch(string(page))
	require.NotNil(t, most)
	require.Contains(t, diags[0].Detail, "more than "+strings.ReplaceAll(most[1], ",", "")+" nodes and modules")
}
