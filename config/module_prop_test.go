package config_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
)

// repeatedModule refers from everywhere to everything that an evaluation finds out.
const repeatedModule = `
variable "n" {
  type = object({ name = string, items = optional(any, {}), permits = optional(any, 3), desc = optional(any) })
  validation {
    condition     = var.n.name != "bad"
    error_message = "bad name"
  }
  validation {
    condition     = var.min < 5
    error_message = "bad min ${var.min} ${var.n.name}"
  }
}
variable "min" {
  type = number
  default = 2
}
variable "s" {
  sensitive = true
  nullable = false
  default = "x"
}
locals {
  a = var.n.items
  b = { for k, v in local.a : "${k}-${var.n.name}" => v }
  c = length(local.b)
  z = 10 / (var.min - 3)
}
principal "p" {
  scheme = "digest"
  id = digest("u", "${var.s}${var.n.name}")
}
acl "l" {
  grant {
    to = [for k in concat(["first"], keys(local.b)) : principal.p]
    allow = length(local.b) > 1 ? "observe" : "admin"
  }
  grant {
    to = [principal.p]
    allow = "admin"
  }
}
namespace "x" {
  name = "x-${var.n.name}"
  acl = acl.l
  max_hold = var.n.desc == "hold" ? "10m" : null
  mutex "m" {
    for_each = local.b
    description = "${each.key} ${each.value}"
  }
  semaphore "s" {
    permits = var.n.permits
    lifecycle { prevent_destroy = local.c == 1 }
  }
  rwlock "rw" {
    description = "of ${FIRST}"
  }
}
mutex "z" {
  name = "z-${var.n.name}"
  description = "${local.z}"
}
module "in" {
  source = "./in"
  for_each = local.b
  name = "${each.key}-in"
  v = each.value
}
mutex "o" {
  name = "o-${var.n.name}"
  description = join(",", [for k, i in module.in : i.path])
}
moved {
  from = mutex.old
  to   = mutex.z
}
output "paths" { value = [namespace.x.path, mutex.z.path, [for k, m in namespace.x.mutex.m : m.path], local.c] }
output "in" { value = module.in }
output "secret" { 
  value = var.s
  sensitive = true
}
`

const innerModule = `
variable "name" { type = string }
variable "v" {
  validation {
    condition = var.v != "e"
    error_message = "e is not good for ${var.name}"
  }
}
mutex "i" {
  name = var.name
  description = var.v == "n" ? null : var.v
}
output "path" { value = mutex.i.path }
`

// loadCalls returns the configuration and its errors, sorted; of those in the calls without their places.
func loadCalls(calls, mod string) (*config.Config, []string) {
	c, diags := config.LoadFS(fstest.MapFS{
		"main.locktree.hcl":     {Data: []byte(preamble + calls)},
		"mod/m.locktree.hcl":    {Data: []byte(mod)},
		"mod/in/i.locktree.hcl": {Data: []byte(innerModule)},
	}, ".", config.Options{Environ: testEnviron})
	var out []string
	for _, d := range diags {
		if d.Subject != nil && d.Subject.Filename == "main.locktree.hcl" {
			out = append(out, d.Summary+": "+d.Detail)
		} else {
			out = append(out, fmt.Sprintf("%s: %s: %s", d.Subject, d.Summary, d.Detail))
		}
	}
	return c, out
}

// What an instance of a module finds out is its own: the instances of one block come to the same nodes and errors as a block
// for each of them.
func TestAnInstanceOfAModuleIsAsABlockOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mistakes := rapid.Bool().Draw(t, "mistakes")
		draw := func(name string, good, bad []string) string {
			if mistakes {
				good = append(good, bad...)
			}
			return rapid.SampledFrom(good).Draw(t, name)
		}
		mod := strings.Replace(repeatedModule, "FIRST", draw("first", []string{`join(" ", [for k, m in namespace.x.mutex.m : m.name])`}, []string{"[for k, m in namespace.x.mutex.m : m.name][0]"}), 1)
		instances, blocks, n := "module \"m\" {\n  source = \"./mod\"\n  for_each = {\n", "", rapid.IntRange(1, 4).Draw(t, "n")
		for i := range n {
			given := fmt.Sprintf("{ n = { name = %s, items = %s, permits = %s, desc = %s }, min = %s, s = %s }",
				draw("name", []string{fmt.Sprintf(`"n%d"`, i)}, []string{`"bad"`, `"a/b"`}),
				draw("items", []string{"{}", `{a="o"}`, `{a="x",b="y"}`, `{b="n"}`}, []string{"null", "[1]", `{a="e"}`, `{"q/r"="1"}`}),
				draw("permits", []string{"1", "2"}, []string{"null", "0", `"x"`}),
				draw("desc", []string{"null", `"hold"`}, nil),
				draw("min", []string{"1", "2"}, []string{"3", "9", "null", `"k"`}),
				draw("s", []string{"null", `"pw"`, `sensitive("q")`}, nil))
			instances += fmt.Sprintf("    k%d = %s\n", i, given)
			blocks += fmt.Sprintf("module \"m_k%[1]d\" {\n  source = \"./mod\"\n  n = local.e%[1]d.n\n  min = local.e%[1]d.min\n  s = local.e%[1]d.s\n}\nlocals {\n  e%[1]d = %[2]s\n}\n", i, given)
		}
		instances += "  }\n  n = each.value.n\n  min = each.value.min\n  s = each.value.s\n}\n"
		got, gotErrors := loadCalls(instances, mod)
		want, wantErrors := loadCalls(blocks, mod)
		asBlock := func(s string) string {
			return regexp.MustCompile(`module\.m\["(k\d)"\]`).ReplaceAllString(s, "module.m_$1")
		}
		for i := range gotErrors {
			gotErrors[i] = asBlock(gotErrors[i])
		}
		for _, errors := range [][]string{gotErrors, wantErrors} {
			slices.Sort(errors)
		}
		wantErrors, gotErrors = slices.Compact(wantErrors), slices.Compact(gotErrors)
		if len(gotErrors) >= config.Repeats && len(gotErrors) < len(wantErrors) { // instances have one place, of which more are not shown
			require.Subset(t, wantErrors, gotErrors, "%s\n%s", instances, mod)
		} else {
			require.Equal(t, wantErrors, gotErrors, "%s\n%s", instances, mod)
		}
		if !mistakes {
			require.Empty(t, gotErrors)
		}
		if len(gotErrors) > 0 {
			return
		}
		for _, n := range got.Ensembles[0].Tree.Nodes {
			n.Addr = plan.Addr(asBlock(string(n.Addr)))
			n.Payload.Owner.Addr = asBlock(n.Payload.Owner.Addr)
		}
		require.Equal(t, want.Ensembles[0].Tree.Nodes, got.Ensembles[0].Tree.Nodes)
		require.Len(t, got.Ensembles[0].Tree.Intent.Moves, n)
	})
}
