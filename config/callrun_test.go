package config

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// port is an input or an output of a module in a drawn system.
type port struct {
	module int
	out    bool
	n      int
}

// system is some modules that use each other's outputs in any way. Each port is a text
// of its own name and of the ports it is drawn to use; what an output uses of another
// one goes through a local.
type system struct {
	modules, ports int
	repeated       []bool
	depth          []int // of the module behind others that hand everything on
	uses           map[port][]port
	whole          map[port]bool // an input that uses all of a module to get at its outputs
	rule           map[port]bool // an input whose rule refers to the next one
}

func drawSystem(t *rapid.T) *system {
	s := &system{
		modules: rapid.IntRange(1, 4).Draw(t, "modules"), ports: rapid.IntRange(1, 3).Draw(t, "ports"),
		uses: map[port][]port{}, whole: map[port]bool{}, rule: map[port]bool{},
	}
	anyPort := rapid.IntRange(0, s.ports-1)
	for i := range s.modules {
		s.repeated = append(s.repeated, rapid.Bool().Draw(t, "repeated"))
		s.depth = append(s.depth, rapid.IntRange(0, 2).Draw(t, "depth"))
		for n := range s.ports {
			in, out := port{i, false, n}, port{i, true, n}
			for range rapid.IntRange(0, 1).Draw(t, "arguments") {
				s.uses[in] = append(s.uses[in], port{rapid.IntRange(0, s.modules-1).Draw(t, "module"), true, anyPort.Draw(t, "output")})
			}
			s.whole[in] = rapid.IntRange(0, 9).Draw(t, "whole") == 0
			s.rule[in] = rapid.IntRange(0, 3).Draw(t, "rule") == 0
			for range rapid.IntRange(0, 2).Draw(t, "inputs") {
				s.uses[out] = append(s.uses[out], port{i, rapid.IntRange(0, 3).Draw(t, "of an output") == 0, anyPort.Draw(t, "input")})
			}
		}
	}
	return s
}

func (s *system) next(p port) port { return port{p.module, p.out, (p.n + 1) % s.ports} }

// cyclic reports whether some port is needed for itself. That rules refer to each
// other's variables is no cycle by itself.
func (s *system) cyclic() bool {
	type step struct{ from, to port }
	var all []port
	reach, needs := map[step]bool{}, map[step]bool{}
	for i := range s.modules {
		for n := range s.ports {
			for _, p := range []port{{i, false, n}, {i, true, n}} {
				all = append(all, p)
				for _, u := range s.uses[p] {
					needs[step{p, u}] = true
					for o := range s.ports {
						if s.whole[p] && !p.out {
							needs[step{p, port{u.module, true, o}}] = true
						}
					}
				}
				if s.rule[p] {
					reach[step{p, s.next(p)}] = true
				}
			}
		}
	}
	for e := range needs {
		reach[e] = true
	}
	for _, via := range all {
		for _, a := range all {
			for _, b := range all {
				if reach[step{a, via}] && reach[step{via, b}] {
					reach[step{a, b}] = true
				}
			}
		}
	}
	for e := range needs {
		if e.from == e.to || reach[step{e.to, e.from}] {
			return true
		}
	}
	return false
}

// text is what a port is worth in the instance of its module with this key.
func (s *system) text(p port, seed, key string) string {
	name := "o"
	if !p.out {
		name = "i" + seed + key
	}
	text := fmt.Sprint(name, p.n)
	for _, u := range s.uses[p] {
		if !p.out {
			key = ""
			if s.repeated[u.module] {
				key = "a"
			}
		}
		text += "(" + s.text(u, seed, key) + ")"
	}
	return text
}

// write writes the system down below a directory. A whole system is a module with the
// variable seed.
func (s *system) write(files fstest.MapFS, dir string) {
	add := func(name, text string) { files[dir+name+nativeSuffix] = &fstest.MapFile{Data: []byte(text)} }
	var main, all strings.Builder
	for i := range s.modules {
		var b strings.Builder
		fmt.Fprintf(&main, "module \"m%d\" {\nsource = \"./m%d\"\n", i, i)
		own := ""
		if s.repeated[i] {
			main.WriteString("for_each = toset([\"a\", \"b\"])\n")
			own = "${each.key}"
		}
		for n := range s.ports {
			in := port{i, false, n}
			fmt.Fprintf(&main, "i%d = \"i${var.seed}%s%d", n, own, n)
			for _, u := range s.uses[in] {
				switch {
				case s.whole[in] && s.repeated[u.module]:
					fmt.Fprintf(&main, "(${[for k, m in module.m%d : m.o%d][0]})", u.module, u.n)
				case s.whole[in]:
					fmt.Fprintf(&main, "(${lookup(module.m%d, \"o%d\", \"\")})", u.module, u.n)
				case s.repeated[u.module]:
					fmt.Fprintf(&main, "(${module.m%d[\"a\"].o%d})", u.module, u.n)
				default:
					fmt.Fprintf(&main, "(${module.m%d.o%d})", u.module, u.n)
				}
			}
			main.WriteString("\"\n")
			other := in
			if s.rule[in] {
				other = s.next(in)
			}
			fmt.Fprintf(&b, "variable \"i%d\" {\nvalidation {\ncondition = length(var.i%d) > 0 && length(var.i%d) > 0\nerror_message = \"Empty.\"\n}\n}\n", n, n, other.n)
			fmt.Fprintf(&b, "output \"o%d\" { value = local.l%d }\nlocals {\nl%d = \"o%d", n, n, n, n)
			for _, u := range s.uses[port{i, true, n}] {
				fmt.Fprintf(&b, "(${%s%d})", map[bool]string{true: "local.l", false: "var.i"}[u.out], u.n)
			}
			b.WriteString("\"\n}\n")
		}
		main.WriteString("}\n")
		fmt.Fprintf(&all, "m%d = module.m%d\n", i, i)
		fmt.Fprintf(&b, "mutex \"m\" { name = sha1(\"${path.module}${var.i0}${local.l0}\") }\n")
		below := fmt.Sprintf("m%d/", i)
		for level := range s.depth[i] {
			add(below+"m", s.handOn(level))
			below += "inner/"
		}
		add(below+"m", b.String())
	}
	fmt.Fprintf(&main, "variable \"seed\" { default = \"s\" }\noutput \"all\" {\nvalue = {\n%s}\n}\n", all.String())
	add("system", main.String())
}

// handOn is a module that hands its inputs to one below it, and the outputs of that up.
func (s *system) handOn(level int) string {
	var b strings.Builder
	key := ""
	b.WriteString("module \"inner\" {\nsource = \"./inner\"\n")
	if level > 0 {
		key = `["k"]`
		b.WriteString("for_each = { k = 1 }\n")
	}
	for n := range s.ports {
		fmt.Fprintf(&b, "i%d = var.i%d\n", n, n)
	}
	b.WriteString("}\n")
	for n := range s.ports {
		fmt.Fprintf(&b, "variable \"i%d\" {}\noutput \"o%d\" { value = module.inner%s.o%d }\n", n, n, key, n)
	}
	return b.String()
}

// Modules that use each other's outputs load exactly when no value is needed for
// itself, and their values are those of the definition, in every instance.
func TestModulesThatUseEachOtherAgainstTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSystem(t)
		files := fstest.MapFS{"main.locktree.hcl": {Data: []byte(preamble)}}
		seeds := []string{"s"}
		if rapid.Bool().Draw(t, "in a module") {
			seeds = []string{"p", "q"}
			files["main.locktree.hcl"].Data = []byte(preamble + "module \"w\" {\nsource = \"./w\"\nfor_each = toset([\"p\", \"q\"])\nseed = each.key\n}\noutput \"all\" { value = { for k, w in module.w : k => w.all } }\n")
			s.write(files, "w/")
		} else {
			s.write(files, "")
		}
		c, diags := loadFS(files, ".", Options{Environ: testEnviron})
		if s.cyclic() {
			require.True(t, diags.HasErrors())
			for _, d := range diags {
				require.Equal(t, "Dependency cycle", d.Summary, d.Detail)
			}
			return
		}
		require.False(t, diags.HasErrors(), "%v", diags)
		got := map[string]any{}
		require.NoError(t, json.Unmarshal(c.Outputs[0].Value, &got))
		nodes := 0
		for _, seed := range seeds {
			outputs := got
			if len(seeds) > 1 {
				outputs = got[seed].(map[string]any)
			}
			for i := range s.modules {
				keys := []string{""}
				if s.repeated[i] {
					keys = []string{"a", "b"}
				}
				nodes += len(keys)
				for _, key := range keys {
					m := outputs[fmt.Sprint("m", i)].(map[string]any)
					if key != "" {
						m = m[key].(map[string]any)
					}
					for n := range s.ports {
						require.Equal(t, s.text(port{i, true, n}, seed, key), m[fmt.Sprint("o", n)])
					}
				}
			}
		}
		require.Len(t, c.Ensembles[0].Tree.Nodes, nodes)
	})
}

// Whatever is left to spend, a module that is split is evaluated, or it is said why not.
func TestSplittingAModuleIsPaidFor(t *testing.T) {
	files := fstest.MapFS{
		"main.locktree.hcl": {Data: []byte(preamble + `
module "a" {
  source   = "./m"
  for_each = toset(["x", "y", "z"])
  one      = module.b["x"].one
  two      = "two"
}
module "b" {
  source   = "./m"
  for_each = toset(["x", "y", "z"])
  one      = module.a["y"].two
  two      = module.a["z"].two
}
output "o" { value = module.b["z"].one }
`)},
		"m/m.locktree.hcl": {Data: []byte("variable \"one\" {}\nvariable \"two\" {}\noutput \"one\" { value = var.one }\noutput \"two\" { value = var.two }\n")},
	}
	refused, loaded := 0, 0
	for left := 0; left < 10_000; left += 7 {
		m := newModule(&sources{fsys: files, dir: ".", files: map[string]*hcl.File{}, report: &report{}}, Options{Environ: testEnviron})
		m.open = func(sub string) (fs.FS, error) { return fs.Sub(files, sub) }
		m.effort.left = left
		c := &Config{}
		m.build(c)
		if !m.hasErrors() {
			require.JSONEq(t, `"two"`, string(c.Outputs[0].Value))
			loaded++
			continue
		}
		refused++
		for _, d := range m.diags {
			require.Contains(t, d.Error(), "oo many steps")
		}
	}
	require.Positive(t, refused)
	require.Positive(t, loaded)
}
