package generate_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config/generate"
)

const codePreamble = `
locktree { stack = "code" }
variable "region" {}
variable "open" { type = set(string) }
variable "zone" { default = "z" }
variable "password" {}
principal "p" {
  scheme = "digest"
  id     = digest("p", var.password)
}
acl "a" {
  grant {
    to    = [principal.p]
    allow = "admin"
  }
}
ensemble "main" {}
`

func loadCode(t *testing.T, blocks string) (*generate.Code, string) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"main.locktree.hcl": codePreamble + blocks,
		"mod/m.locktree.hcl": "variable \"name\" {}\nvariable \"where\" { default = \"there\" }\n" +
			"mutex \"m\" {\n  name = \"${var.name}-${var.where}\"\n}\noutput \"path\" {\n  value = mutex.m.path\n}\n",
	})
	code, diags := generate.Load(dir, "")
	if diags.HasErrors() {
		return nil, diags[0].Summary + ": " + diags[0].Detail
	}
	return code, ""
}

// A name that is not known when a program is compiled is an error, which names what it depends on, however indirectly.
func TestNamesThatProgramsCannotKnow(t *testing.T) {
	for blocks, reason := range map[string]string{
		`mutex "m" { name = "m-${var.region}" }`: "mutex.m depends on var.region,",
		`locals { r = upper(var.region) }
		mutex "m" { name = "${local.r}${env("REGION")}" }`: "mutex.m depends on the environment and var.region,",
		`mutex "a" {}
		mutex "m" { name = replace(mutex.a.path, "/", "-") }`: "mutex.m depends on the root,",
		`semaphore "s" {
			permits = length(var.open)
			acl = acl.a
		}
		mutex "m" { name = "m${semaphore.s.permits}" }`: "mutex.m depends on var.open,",
		`module "mod" {
			source = "./mod"
			name = "x${var.region}"
		}`: "module.mod.mutex.m depends on var.region,",
		`module "mod" {
			source = "./mod"
			for_each = var.open
			name = each.key
		}`: "module.mod.mutex.m depends on var.open,",
		`mutex "m" {
			for_each = var.open
			name = upper(each.key)
		}`: "mutex.m depends on var.open,",
		`namespace "n" {
			for_each = var.open
			mutex "m" {
				for_each = { a = "b" }
				name = each.value
			}
		}`: "namespace.n.mutex.m depends on var.open,",
		`ensemble "other" {}
		mutex "m" { ensemble = var.region == "eu" ? ensemble.main : ensemble.other }`: "It depends on var.region which ensemble",
	} {
		_, got := loadCode(t, blocks)
		require.Contains(t, got, "Not known to programs: ", blocks)
		require.Contains(t, got, reason, blocks)
	}
}

// A value is known only if it is known for all values of the variables without a default.
func TestCodeKnowsDefaultsAlone(t *testing.T) {
	code, wrong := loadCode(t, `
variable "hide" { type = bool }
namespace "n" {
  name = "n-${var.zone}"
  mutex "m" {
    description = "in ${var.region}"
    max_waiters = 3
    wire        = var.region
  }
  mutex "k" {
    for_each = merge({ x = 1 }, { for k in var.open : k => 1 })
  }
  mutex "none" {
    for_each = toset([])
  }
}
module "mod" {
  source   = "./mod"
  for_each = toset(["a", "b"])
  name     = each.key
}
output "zone" { value = var.zone }
output "path" { value = namespace.n.mutex.m.path }
output "paths" { value = [for k, m in module.mod : m.path] }
output "maybe" {
  value     = "hidden"
  sensitive = var.hide
}
output "either" { value = try(env("REGION"), "none") }
output "sum" { value = alltrue([true, var.hide]) }
`)
	require.Empty(t, wrong)
	var outputs []string
	for _, o := range code.Outputs {
		switch {
		case o.Unknown != "":
			outputs = append(outputs, o.Name+": "+o.Unknown)
		case o.Path != "":
			outputs = append(outputs, o.Name+" at "+o.Path)
		default:
			outputs = append(outputs, o.Name+" = "+o.Value.AsString())
		}
	}
	require.Equal(t, []string{"either: the environment", "path at /n-z/m", "paths: the root", "sum: var.hide", "zone = z"}, outputs)
	blocks := code.Ensembles[0].Blocks
	require.Len(t, blocks, 2)
	n := blocks[0]
	require.Equal(t, generate.Name{Before: "n-z"}, n.Name)
	m, k, none := n.Blocks[0], n.Blocks[1], n.Blocks[2]
	fields := map[string]any{}
	for _, f := range m.Fields {
		fields[f.Name] = f.Get()
	}
	require.Equal(t, 3, fields["max_waiters"])
	require.NotContains(t, fields, "description")
	require.NotContains(t, fields, "wire")
	for _, b := range []*generate.Block{k, none} {
		require.True(t, b.Repeated)
		require.Empty(t, b.Keys)
		require.Equal(t, generate.Name{Before: b.Label + "-", HasKey: true}, b.Name)
	}
	require.Equal(t, []string{"a", "b"}, blocks[1].Keys)
	require.True(t, blocks[1].Blocks[0].Name.Listed)
	var paths []string
	for _, node := range code.Ensembles[0].Nodes {
		paths = append(paths, node.Path)
	}
	require.Equal(t, []string{"/a-there", "/b-there", "/n-z", "/n-z/m"}, paths)
}

// testdata/odd.go.golden has the code for the odd names of testdata/odd.
func TestOddNamesBecomeCodeThatCompiles(t *testing.T) {
	code, diags := generate.Load("testdata/odd", "")
	require.False(t, diags.HasErrors(), "%v", diags)
	source := goSource(t, code)
	require.NoError(t, checker(t)(source))
	require.NotContains(t, source, "swordfish")
	const file = "testdata/odd.go.golden"
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, []byte(source), 0o666))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), source, "make golden rewrites it")
}

func generated(t *testing.T, blocks string) string {
	dir := t.TempDir()
	write(t, dir, map[string]string{"x.locktree.hcl": preamble + blocks})
	code, diags := generate.Load(dir, "")
	require.False(t, diags.HasErrors(), "%v", diags)
	return goSource(t, code)
}

// Alone, each of the two locks gets the name AB; together, neither gets it. If one kept it and was then renamed, AB would pass to the
// other lock. A program that uses AB would still compile, but take that other lock.
func TestANewLockTakesNobodysName(t *testing.T) {
	alone := generated(t, `mutex "a_b" {}`)
	require.Contains(t, alone, ") AB(")
	both := generated(t, `mutex "a_b" {}`+"\n"+`mutex "a-b" {}`)
	require.NotContains(t, both, ") AB(")
	require.Contains(t, both, ") Mutex_a_5f_b(")
	require.Contains(t, both, ") Mutex_a_2d_b(")
}

// A change elsewhere adds lines, and changes none.
func TestCodeIsStableUnderUnrelatedChanges(t *testing.T) {
	before := generated(t, "namespace \"a\" {\n  mutex \"m\" {}\n}\n")
	after := generated(t, "rwlock \"z\" {}\nnamespace \"b\" {\n  election \"e\" {}\n}\nnamespace \"a\" {\n  mutex \"m\" {}\n  semaphore \"s\" { permits = 1 }\n}\n")
	rest := after
	for line := range strings.Lines(before) {
		_, behind, found := strings.Cut(rest, strings.Join(strings.Fields(line), " "))
		if !found {
			_, behind, found = strings.Cut(rest, line)
		}
		require.True(t, found, "%q changed, or its place:\n%s", line, after)
		rest = behind
	}
}
