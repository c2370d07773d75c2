package config_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
)

// The nodes that an output comes from decide whether a plan with targets has it.
func TestOutputKnowsTheNodesItComesFrom(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	c, diags := config.LoadFS(fstest.MapFS{
		"main.locktree.hcl": file(`
locktree { stack = "s" }
ensemble "main" {
  servers = ["zk:2181"]
  auth "digest" {
    username = "u"
    password = "long enough"
  }
}
variable "n" { default = 3 }
locals {
  far  = namespace.a.mutex.one.path
  more = [for k, v in namespace.a.mutex.many : v.path]
}
namespace "a" {
  mutex "one" { description = namespace.a.mutex.two.path }
  mutex "two" {}
  mutex "many" { for_each = toset(["x", "y"]) }
}
module "m" {
  source   = "./m"
  for_each = toset(["k"])
  given    = namespace.a.mutex.two.path
}
output "one" { value = namespace.a.mutex.one.path }
output "local" { value = "${local.far} ${local.more[0]} ${var.n}" }
output "constant" { value = var.n }
output "inside" { value = module.m["k"].inside }
output "through" { value = module.m["k"].through }
output "deeper" { value = module.m["k"].deeper }
output "whole" { value = keys(module.m) }
`),
		"m/m.locktree.hcl": file(`
variable "given" {}
mutex "inner" {}
mutex "other" {}
module "d" { source = "../d" }
output "inside" { value = mutex.inner.path }
output "through" { value = var.given }
output "deeper" { value = module.d.path }
`),
		"d/d.locktree.hcl": file(`
mutex "deep" {}
output "path" { value = mutex.deep.path }
`),
	}, ".", config.Options{})
	require.False(t, diags.HasErrors(), "%s", diags)
	from := map[string][]plan.Addr{}
	for _, o := range c.Outputs {
		from[o.Name] = o.From
	}
	const one, two, many = "namespace.a.mutex.one", "namespace.a.mutex.two", "namespace.a.mutex.many"
	module := []plan.Addr{"module.m.module.d.mutex.deep", "module.m.mutex.inner", "module.m.mutex.other", two}
	require.Equal(t, map[string][]plan.Addr{
		"one": {one}, "local": {many, one}, "constant": nil, "inside": module, "through": module, "deeper": module, "whole": module,
	}, from)
}

// Two blocks call one directory, with the same declarations. An output of both comes from the nodes of both.
func TestAnOutputOfTwoCallsOfOneModuleComesFromBoth(t *testing.T) {
	c, diags := config.LoadFS(fstest.MapFS{
		"main.locktree.hcl":   {Data: []byte(preamble + "module \"a\" {\n  source = \"./m\"\n  n = \"a\"\n}\nmodule \"b\" {\n  source = \"./m\"\n  n = \"b\"\n}\noutput \"o\" {\n  value = [module.a.path, module.b.path]\n}\n")},
		"m/m.locktree.hcl":    {Data: []byte("variable \"n\" {}\nmodule \"in\" {\n  source = \"./in\"\n  n = var.n\n}\noutput \"path\" {\n  value = module.in.path\n}\n")},
		"m/in/i.locktree.hcl": {Data: []byte("variable \"n\" {}\nmutex \"m\" {\n  name = var.n\n}\noutput \"path\" {\n  value = mutex.m.path\n}\n")},
	}, ".", config.Options{Environ: testEnviron})
	require.Empty(t, diags)
	require.Equal(t, []plan.Addr{"module.a.module.in.mutex.m", "module.b.module.in.mutex.m"}, c.Outputs[0].From)
}
