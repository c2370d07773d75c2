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
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// drawTree draws a correct configuration of namespaces and locks, spaced badly
// on purpose.
func drawTree(t *rapid.T) string {
	var b strings.Builder
	drawBlocks(t, &b, 0)
	return b.String()
}

func drawBlocks(t *rapid.T, b *strings.Builder, depth int) {
	labels := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9_-]{0,5}`), 0, 4, rapid.ID).Draw(t, "labels")
	for _, label := range labels {
		k := rapid.SampledFrom(kind.All()).Draw(t, "kind")
		fmt.Fprintf(b, "%s \"%s\" {\n", k.Name, label)
		if rapid.Bool().Draw(t, "repeated") {
			fmt.Fprintf(b, "for_each=toset([\"x\",  \"y\"])\n")
		}
		of := rapid.SampledFrom([]string{"mutex", "rwlock", "semaphore"}).Draw(t, "of")
		for _, f := range k.New().Fields() {
			due := map[string]string{"schedule": "*/15 3-5 * * MON", "timezone": "Europe/Berlin", "catch_up": "90m"}[f.Name]
			switch {
			case due != "": // together, or not at all
				fmt.Fprintf(b, "%s=%q\n", f.Name, due)
				continue
			case f.Derived:
				continue
			case k != kind.Keyed:
			case f.Name == "kind":
				fmt.Fprintf(b, "kind=\"%s\"\n", of)
				continue
			case f.Name == "permits" && of == "semaphore":
				b.WriteString("permits=3\n")
				continue
			case f.Name == "permits", f.Name == "wire" && of == "semaphore":
				continue
			}
			if f.Required || rapid.Bool().Draw(t, "set "+f.Name) {
				fmt.Fprintf(b, "%s=%s\n", f.Name, drawField(t, f))
			}
		}
		if rapid.Bool().Draw(t, "protected") {
			b.WriteString("lifecycle {\nprevent_destroy=true\n}\n")
		}
		if k.Container && depth < 3 {
			drawBlocks(t, b, depth+1)
		}
		b.WriteString("}\n")
	}
}

func drawField(t *rapid.T, f kind.Field) string {
	switch {
	case f.Number:
		return fmt.Sprint(rapid.IntRange(f.Min, f.Max).Draw(t, f.Name))
	case len(f.OneOf) > 0:
		return fmt.Sprintf("%q", rapid.SampledFrom(f.OneOf).Draw(t, f.Name))
	case f.Inherit:
		kept := map[string][]string{"max_hold": {"", "10m"}, "max_wait": {"1.5s"}, "owner": {"a@example.com", "Team B"}, "runbook": {"https://example.com/a?b=c"}}
		return rapid.SampledFrom([]string{"null", fmt.Sprintf("%q", rapid.SampledFrom(kept[f.Name]).Draw(t, f.Name))}).Draw(t, "value")
	default:
		return fmt.Sprintf("\"${%q}\"", rapid.StringMatching(`[a-z ]{0,20}`).Draw(t, f.Name))
	}
}

// A tree is sorted, with each path once and each child behind and below its parent. The library can read every payload back.
func TestTreesAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := drawTree(t)
		c, diags := loadText(preamble+src, config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v\n%s", diags, src)
		tree := c.Ensembles[0].Tree
		paths, addrs := map[string]kind.Params{"/": nil}, map[string]bool{}
		last := ""
		for _, n := range tree.Nodes {
			require.Less(t, last, n.Path)
			last = n.Path
			parent, known := paths[kind.ParentPath(n.Path)]
			require.True(t, known, "%s has no parent", n.Path)
			require.True(t, parent == nil || parent.Kind().Container)
			paths[n.Path] = n.Payload.Params
			require.False(t, addrs[string(n.Addr)], "address %s twice", n.Addr)
			addrs[string(n.Addr)] = true
			require.NotEmpty(t, n.ACL)
			data, err := n.Payload.Encode()
			require.NoError(t, err)
			back, err := kind.Decode(data)
			require.NoError(t, err)
			require.EqualValues(t, n.Addr, back.Owner.Addr)
			require.Empty(t, kind.Diff(n.Payload.Params, back.Params))
		}
	})
}

// The tree does not depend on how blocks are spread over files, or on their order.
func TestATreeDoesNotDependOnTheFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, diags := loadText(preamble+`mutex "z" {}`+"\nnamespace \"a\" {\n"+drawTree(t)+"}\n", config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		src := string(c.Sources["main.locktree.hcl"].Bytes)
		cut := strings.Index(src, "namespace \"a\"")
		d, diags := config.LoadFS(fstest.MapFS{
			"a.locktree.hcl": {Data: []byte(src[cut:])},
			"b.locktree.hcl": {Data: []byte(src[:cut])},
		}, ".", config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v", diags)
		require.Equal(t, dump(c, false), dump(d, false))
	})
}

func TestSuggestionsAreNearAndNotNoise(t *testing.T) {
	names := []string{"permits", "name", "wire", "max_waiters", "for_each"}
	for given, want := range map[string]string{
		"permit": "permits", "nmae": "name", "naem": "name", "max_waiter": "max_waiters", "foreach": "for_each",
		"life": "", "x": "", "": "", "acl": "", "permitsperm": "",
	} {
		got := explain.DidYouMean(given, names)
		if want == "" {
			require.Empty(t, got, given)
		} else {
			require.Contains(t, got, want, given)
		}
	}
}

// A program with no right on a lock deleted it because the namespace granted d.
func TestLockRoleNeverDeletesLocks(t *testing.T) {
	namespace, lock := config.RolePerms("lock")
	require.Zero(t, namespace&(kind.PermCreate|kind.PermDelete|kind.PermAdmin|kind.PermWrite))
	require.Equal(t, "cdr", lock.String())
}

// repeatedModule refers from every place to every result of an evaluation.
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

// loadCalls returns the configuration and its errors. Errors in the calls are without their places.
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

// Each instance of a module is evaluated by itself: the instances of one block come to the same nodes and errors as a block for each of
// them.
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
		if len(gotErrors) >= config.Repeats && len(gotErrors) < len(wantErrors) { // all instances share one place, and more errors of a place are not shown
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
