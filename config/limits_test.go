package config

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Each of these would exhaust the stack or the memory of the process if it were
// parsed or evaluated without a limit.
func TestHostileInputIsRefused(t *testing.T) {
	deep := strings.Repeat
	doubling := "locals {\n  a0 = \"0123456789\"\n"
	for i := range 40 {
		doubling += fmt.Sprintf("  a%d = \"${local.a%d}${local.a%d}\"\n", i+1, i, i)
	}
	sharing := "locals {\n  a0 = [1]\n"
	for i := range 40 {
		sharing += fmt.Sprintf("  a%d = [local.a%d, local.a%d]\n", i+1, i, i)
	}
	for name, c := range map[string]struct{ src, want string }{
		"brackets":            {"locals { a = " + deep("[", 100_000) + "}", "Nested too deeply"},
		"parentheses":         {"locals { a = " + deep("(", 100_000) + "1" + deep(")", 100_000) + "}", "Nested too deeply"},
		"blocks":              {deep("namespace \"a\" {\n", 1000) + deep("}\n", 1000), "Nested too deeply"},
		"templates":           {"locals { a = " + deep(`"${`, 1000) + "1" + deep(`}"`, 1000) + "}", "Nested too deeply"},
		"directives":          {"locals { a = \"" + deep(`%{ if true }`, 1000) + deep(`%{ endif }`, 1000) + "\" }", "Nested too deeply"},
		"operators":           {"locals { a = 1" + deep("+1", 100_000) + " }", "Expression too long"},
		"commas in operators": {"locals { a = 1" + deep(deep("+1", 3900)+"+max(1,2)", 40) + " }", "Expression too long"},
		"equals in operators": {"locals { a = 1" + deep(deep("+1", 3900)+"+{a=1}.a", 40) + " }", "Expression too long"},
		"commas in brackets":  {"locals { a = " + deep("max(", 95) + "1" + deep(deep("+1", 3900)+",0)", 95) + " }", "Expression too long"},
		"many calls":          {"locals { a = [" + deep("max(1+1,2+2),", 20_000) + "] }", ""},
		"negations":           {"locals { a = " + deep("!", 100_000) + "true }", "Expression too long"},
		"conditionals":        {"locals { a = " + deep("true?1:", 100_000) + "1 }", "Expression too long"},
		"splats":              {"locals { a = []" + deep("[*]", 100_000) + " }", "Expression too long"},
		"doubling":            {doubling + "}", "Value too large"},
		"sharing":             {sharing + "}", "Value too large"},
		"nodes":               {"locals { r = { for i in range(600) : i => i } }\nnamespace \"n\" {\n  for_each = local.r\n  mutex \"m\" { for_each = local.r }\n}", "Too many nodes"},
		"label path":          {"namespace \"" + deep("a/", 1000) + "a\" {}", "Invalid name"},
		"long path":           {deep("namespace \"a\" {\nname = \""+deep("x", 200)+"\"\n", 6) + deep("}\n", 6), "Path too long"},
		"long name":           {"mutex \"m\" { name = \"" + deep("x", 300) + "\" }", "Illegal znode name"},
		"long stack":          {"locktree { stack = \"" + deep("x", 200) + "\" }", "Invalid stack"},
		"long chain":          {"locals {\n" + chain(20_000) + "}", ""},
		"long list":           {"locals { a = [" + deep("1,", 100_000) + "] }", ""},
		"in a value":          {"locals {\n a = (1" + deep("\n+1", 5000) + ")\n}", "Expression too long"},
		"many blocks":         {"namespace \"n\" {\n" + emptyBlocks(5000) + "}\n" + emptyBlocks(5000), ""},
		"no bound left":       {"locals { a = \"" + deep("x", 2<<20) + "\" }", "Value too large"},
	} {
		t.Run(name, func(t *testing.T) {
			src := preamble + c.src
			if strings.HasPrefix(c.src, "locktree") {
				src = c.src
			}
			_, diags := loadText(src, Options{Environ: testEnviron})
			if c.want == "" {
				require.False(t, diags.HasErrors(), "%v", diags)
				return
			}
			require.Contains(t, summaries(diags), c.want)
		})
	}
}

// emptyBlocks have no argument that would end an expression.
func emptyBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "mutex \"m%d\" {\n}\nrwlock \"r%d\" {}\n", i, i)
	}
	return b.String()
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

func TestHostileJSONIsRefused(t *testing.T) {
	for name, src := range map[string]string{
		"objects":   strings.Repeat(`{"a":`, 100_000),
		"arrays":    strings.Repeat(`[`, 100_000),
		"templates": `{"locals": {"a": "${` + strings.Repeat("(", 1000) + `"}}`,
		"escaped":   `{"locals": {"a": "${` + strings.Repeat(`\"${`, 1000) + `"}}`,
		// What is a text to a template is an expression where a type or an address stands.
		"type":              `{"variable": {"v": {"type": "` + strings.Repeat("list(", 200_000) + `"}}}`,
		"address":           `{"moved": [{"from": "` + strings.Repeat("{a=", 340_000) + `", "to": "mutex.m"}]}`,
		"keys of addresses": `{"import": [{"path": "/p", "to": "mutex.m[` + strings.Repeat("{a=", 340_000) + `]"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, diags := loadFS(fstest.MapFS{"x.locktree.json": {Data: []byte(src)}}, ".", Options{})
			require.Contains(t, summaries(diags), "Nested too deeply")
		})
	}
}

func TestLargeFilesAreNotRead(t *testing.T) {
	_, diags := loadText(strings.Repeat("#\n", maxFileBytes), Options{})
	require.Contains(t, summaries(diags), "larger than 16 MiB")
}

// Brackets in comments and texts are no nesting.
func TestBracketsInTextAreNoNesting(t *testing.T) {
	mustLoad(t, strings.Repeat("# {[(\n", 1000)+"locals { a = \""+strings.Repeat("{[(", 1000)+"\" }\n")
	_, diags := loadFS(fstest.MapFS{"x.locktree.json": {Data: []byte(`{"locktree": {"stack": "s"}, "locals": {"a": "` + strings.Repeat(`{[(\"`, 1000) + `"}}`)}}, ".", Options{})
	require.False(t, diags.HasErrors(), "%v", diags)
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
			_, diags := loadFS(files, ".", Options{Environ: testEnviron})
			require.Contains(t, summaries(diags), "Too many modules")
			require.Less(t, len(diags), 100)
		})
	}
}

// A module without nodes costs evaluation, too.
func TestInstancesOfModulesAreCounted(t *testing.T) {
	call := "locals { r = { for i in range(600) : i => i } }\nmodule \"m\" {\nsource = \"./%s\"\nfor_each = local.r\n}\n"
	_, diags := loadFS(fstest.MapFS{
		"main.locktree.hcl":  {Data: []byte(preamble + fmt.Sprintf(call, "a"))},
		"a/m.locktree.hcl":   {Data: []byte(fmt.Sprintf(call, "b"))},
		"a/b/m.locktree.hcl": {Data: []byte("locals { x = 1 }\n")},
	}, ".", Options{Environ: testEnviron})
	require.Contains(t, summaries(diags), "Too many nodes")
}
