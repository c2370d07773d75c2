package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each of these took seconds for some thousand elements and four times that for twice as many, and
// nothing was counted of it: in a loop, or with 100,000 elements, hours.
func TestFindingOneTypeIsPaidFor(t *testing.T) {
	const lists = "  wide = flatten([for i in range(100) : range(50)])\n  less = flatten([for i in range(100) : range(49)])\n" +
		"  mixed = flatten([for i in range(900) : [i, \"a\"]])\n"
	for name, src := range map[string]string{
		"conditions between parts":     "true ? { a = local.wide } : { a = local.less }",
		"conditions, parts of parts":   "true ? [1, [local.wide]] : [1, [local.less]]",
		"coalesce":                     "coalesce(local.wide, local.less)",
		"coalesce of many":             "coalesce(local.wide...)",
		"a list of long ones":          "tolist([local.wide, local.less])",
		"a map of long ones":           "tomap({ a = local.wide, b = local.less })",
		"a union of long ones":         "setunion([local.wide], [local.less])",
		"concat of lists of long ones": "concat(tolist([local.wide]), tolist([local.less]))",
		"convert":                      "convert([local.wide, local.less], list(any))",
		"convert to a map in a list":   "convert([{ a = local.wide, b = local.less }], list(map(any)))",
		"lists in a loop":              "[for i in range(1000) : length(tolist(local.mixed))]",
		"distinct in a loop":           "[for i in range(1000) : length(distinct(local.mixed))]",
		"setproduct in a loop":         "[for i in range(1000) : length(setproduct(local.mixed, [1]))]",
	} {
		t.Run(name, func(t *testing.T) {
			diags := loadHostile("x.locktree.hcl", preamble+"locals {\n"+lists+"  a = "+src+"\n}\n")
			require.True(t, diags.HasErrors())
			require.Regexp(t, "finding one type for (so many values|both) takes minutes", summaries(diags))
			require.Len(t, diags, 1)
		})
	}
	objects := ""
	for range 4000 {
		objects += "[], [1], "
	}
	diags := loadHostile("x.locktree.hcl", preamble+"variable \"v\" {\n  type    = map(list(any))\n  default = { a = ["+objects+"] }\n}\n")
	require.Contains(t, summaries(diags), "finding one type for so many values takes minutes")
}

// What is of one type, or short, costs next to nothing and means what it meant.
func TestWhatIsPaidForMeansWhatItMeant(t *testing.T) {
	c := mustLoad(t, `locals {
  wide = flatten([for i in range(100) : range(500)])
}
variable "v" {
  type    = list(any)
  default = [1, "a", null]
}
output "o" {
  value = [
    length(setproduct(local.wide, ["a"])), length(tolist(local.wide)), length(distinct(local.wide)),
    coalesce(null, local.wide)[1], coalesce(1, "a"), length(coalesce(local.wide, local.wide)), var.v,
    setproduct([1, "a"], [true]), convert([1, "a"], list(any)), convert("5", number), concat(tolist([1]), tolist(["a"])),
    true ? { a = [1, "x"] } : { a = [2] }, setunion([1], ["a"]),
  ]
}
`)
	require.JSONEq(t, `[50000,50000,500,1,"1",50000,["1","a",null],[["1",true],["a",true]],["1","a"],5,["1","a"],{"a":["1","x"]},["1","a"]]`,
		string(c.Outputs[0].Value))
}
