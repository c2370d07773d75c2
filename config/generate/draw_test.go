package generate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/generate"
)

// preamble has variables of every sort, and an ensemble that depends on one without a default.
const preamble = `
locktree { stack = "drawn" }
variable "servers" { type = list(string) }
variable "root" { type = string }
variable "open" { type = set(string) }
variable "pools" {
  type    = map(object({ permits = number }))
  default = { one = { permits = 1 }, "t/wo" = { permits = 2 } }
}
variable "secret" {
  sensitive = true
  default   = "swordfish"
}
variable "n" { type = number }
locals {
  pools = { for k, v in var.pools : replace(k, "/", "") => v }
  names = { for k, v in local.pools : k => "named-${k}" }
}
ensemble "main" {
  servers = var.servers
  root    = var.root
}
principal "anyone" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
`

// given are values for the variables. openKeys are those of the set.
var openKeys = []string{"t1", "t-2"}

func given(addr, root string) []config.Input {
	return []config.Input{{Var: "servers=[\"" + addr + "\"]"}, {Var: "root=" + root}, {Var: `open=["t1", "t-2"]`}, {Var: "n=3"}}
}

// drawing is a configuration that is being drawn.
type drawing struct {
	*rapid.T
	nodes int
}

// labels include keywords, names of the generated code, and some that differ in what no identifier shows.
var labels = []string{"ledger", "a-b", "a_b", "ab", "A", "a", "type", "func", "Root", "root", "at", "Locks", "locks", "client", "place", "x1", "_", "__", "été", "日本", "String", "in", "wait", "class", "output-o"}

// repeated are arguments for_each; the keys of the second half are not known to code.
var repeated = []string{`toset(["x", "y z", "ü"])`, "local.pools", `{ k = { permits = 4 } }`, "toset([for k in var.open : k])", "{ for k in var.open : k => { permits = 2 } }"}

func (d *drawing) blocks(b *strings.Builder, depth int) {
	for _, label := range rapid.SliceOfNDistinct(rapid.SampledFrom(labels), 1, 5, rapid.ID).Draw(d.T, "labels") {
		kinds := []string{"mutex", "rwlock", "semaphore", "election", "keyed"}
		if depth > 0 {
			kinds = append(kinds, "namespace", "namespace", "namespace")
		}
		k := rapid.SampledFrom(kinds).Draw(d.T, "kind")
		d.nodes++
		fmt.Fprintf(b, "%s %q {\n", k, label)
		each := 0
		if rapid.IntRange(0, 2).Draw(d.T, "repeated") == 0 {
			each = rapid.IntRange(1, len(repeated)).Draw(d.T, "for_each")
			fmt.Fprintf(b, "for_each = %s\n", repeated[each-1])
		}
		own := fmt.Sprintf("n%d", d.nodes)
		names := []string{"", fmt.Sprintf("name = %q\n", own)}
		if each > 0 {
			names = []string{"", fmt.Sprintf("name = \"%s-${each.key}\"\n", own), fmt.Sprintf("name = \"${each.key}.%s\"\n", own)}
		}
		if each == 2 {
			names = append(names, fmt.Sprintf("name = \"%s${local.names[each.key]}\"\n", own))
		}
		b.WriteString(rapid.SampledFrom(names).Draw(d.T, "name"))
		if k == "semaphore" {
			fmt.Fprintf(b, "permits = %s\n", rapid.SampledFrom([]string{"2", "var.n", "length(var.open)"}).Draw(d.T, "permits"))
		}
		if k == "keyed" {
			b.WriteString(rapid.SampledFrom([]string{"kind = \"mutex\"\nfanout = \"16\"\n", "kind = \"rwlock\"\n", "kind = \"semaphore\"\npermits = var.n\n"}).Draw(d.T, "of"))
		}
		b.WriteString(rapid.SampledFrom([]string{"", "description = \"*/ \\\"\\\"\\\" \\\\u000a\\nfunc x() {} // @ <\"\n", "owner = \"team\"\n", "description = \"${var.n} at a time\"\n"}).Draw(d.T, "more"))
		if k == "namespace" {
			d.blocks(b, depth-1)
		}
		b.WriteString("}\n")
	}
}

// drawn are the files of a configuration that is correct, with an access list that lets everybody in.
func drawn(t *rapid.T) map[string]string {
	d := &drawing{T: t}
	var main, mod strings.Builder
	main.WriteString(preamble + "namespace \"top\" {\nacl = acl.open\n")
	d.blocks(&main, 2)
	main.WriteString("}\noutput \"o\" { value = namespace.top.path }\noutput \"p\" { value = { a = [1, \"x\"] } }\noutput \"q\" { value = var.n }\n" +
		"output \"r\" {\n  value = var.secret\n  sensitive = true\n}\noutput \"s\" { value = 1.5 }\n")
	mod.WriteString("variable \"acl\" {}\nvariable \"name\" {}\nvariable \"open\" {}\nvariable \"n\" {}\nlocals {\n  pools = { u = {} }\n  names = { u = \"u\" }\n}\nnamespace \"m\" {\nacl = var.acl\nname = var.name\n")
	d.blocks(&mod, 1)
	mod.WriteString("}\n")
	switch rapid.IntRange(0, 2).Draw(t, "module") {
	case 0:
		main.WriteString("module \"call\" {\nsource = \"./mod\"\nacl = acl.open\nname = \"called\"\nopen = var.open\nn = var.n\n}\n")
	case 1:
		main.WriteString("module \"call\" {\nsource = \"./mod\"\nfor_each = local.pools\nacl = acl.open\nname = \"called-${each.key}\"\nopen = var.open\nn = each.value.permits\n}\n")
	}
	return map[string]string{"main.locktree.hcl": main.String(), "mod/m.locktree.hcl": mod.String()}
}

func write(t testing.TB, dir string, files map[string]string) {
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
}

// load evaluates a configuration both ways; false if it declares something twice or nests what is unknown.
func load(t testing.TB, dir, addr, root string) (*config.Config, *generate.Code, bool) {
	c, diags := config.Load(dir, config.Options{Inputs: given(addr, root)})
	if diags.HasErrors() {
		require.Contains(t, diags.Error(), "Duplicate path")
		return nil, nil, false
	}
	code, diags := generate.Load(dir, "")
	if diags.HasErrors() { // a listed name below keys that are not known
		require.Contains(t, diags.Error(), "Not known to programs")
		return nil, nil, false
	}
	return c, code, true
}

func goSource(t testing.TB, code *generate.Code) string {
	source, err := generate.Go(code, "locks")
	require.NoError(t, err)
	return string(source)
}
