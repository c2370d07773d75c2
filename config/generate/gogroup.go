package generate

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// group writes a type, its constructor and its methods.
func (f *goFile) group(g *group) {
	if g.outer == nil {
		f.comment(fmt.Sprintf("%s are the locks of ensemble %q below one root.", g.typ, g.on.ensemble.Name))
	} else {
		f.comment(append([]string{fmt.Sprintf("%s has the locks in %s.", g.typ, g.block.Addr)}, afterBlank(facts(g.block))...)...)
	}
	aliases := f.aliases(g)
	f.printf("type %s struct {\nplace\n", g.typ)
	made := ""
	for _, m := range g.members {
		if m.group != nil && !m.block.Repeated {
			f.memberComment(m)
			f.printf("%s %s\n", m.name, m.group.typ)
			made += fmt.Sprintf("%s: new%s(p.in(%q, %s)),\n", m.name, m.group.typ, m.step(), m.segment("p"))
		}
	}
	for _, a := range aliases {
		if a.to.group != nil {
			f.comment(a.deprecated()...)
			f.printf("%s %s\n", a.name, a.to.group.typ)
			made += fmt.Sprintf("%s: new%s(place{p.client, p.root, p.root + %q, %q}),\n", a.name, a.to.group.typ, a.path, string(a.addr)+".")
		}
	}
	f.printf("}\n\nfunc new%s(p place) %s {\nreturn %s{\nplace: p,\n%s}\n}\n\n", g.typ, g.typ, g.typ, made)
	for _, m := range g.members {
		f.keys(m)
		f.method(g, m)
	}
	for _, a := range aliases {
		if a.to.group == nil {
			f.comment(a.deprecated()...)
			f.lock(g, a.to, a.name, "", fmt.Sprintf("n.root + %q", a.path))
		}
	}
	for _, o := range f.code.Outputs {
		if g.outer == nil && o.Path != "" && o.Ensemble == g.on.ensemble.Name {
			names := []string{"Output" + exportName(o.Name), "Output_" + escape(o.Name)}
			if slices.ContainsFunc(g.members, func(m *member) bool { return m.name == names[0] }) || exportName(o.Name) == "" {
				names[0] = names[1]
			}
			f.comment(fmt.Sprintf("%s is the output %q.", names[0], o.Name))
			f.printf("func (n %s) %s() string { return n.root + %q }\n\n", g.typ, names[0], o.Path)
		}
	}
}

func afterBlank(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	return append([]string{""}, lines...)
}

// memberComment is the comment of a member.
func (f *goFile) memberComment(m *member) {
	what := string(m.block.Addr)
	if m.block.Repeated {
		what += ", one for each key"
	}
	f.comment(append([]string{fmt.Sprintf("%s is %s.", m.name, what)}, afterBlank(facts(m.block))...)...)
}

func (f *goFile) keys(m *member) {
	if len(m.block.Keys) == 0 {
		return
	}
	f.comment(fmt.Sprintf("The keys of %s.", m.block.Addr))
	f.printf("const (\n")
	for i, key := range m.block.Keys {
		f.printf("%s = %q\n", m.keys[i], key)
	}
	f.printf(")\n\n")
}

func (f *goFile) method(g *group, m *member) {
	key := ""
	if m.block.Repeated {
		key = "key string"
	}
	switch {
	case m.group == nil:
		f.memberComment(m)
		f.lock(g, m, m.name, key, "n.path + "+m.segment("n"))
	case m.block.Repeated:
		f.memberComment(m)
		f.printf("func (n %s) %s(key string) %s {\nreturn new%s(n.in(%q+index(key), %s))\n}\n\n", g.typ, m.name, m.group.typ, m.group.typ, m.step(), m.segment("n"))
	}
}

// lock is the method that returns a handle, or the path of a kind without one.
func (f *goFile) lock(g *group, m *member, name, key, path string) {
	typ := goTypes[m.block.Kind]
	params := key
	if key != "" {
		key += ", "
	}
	if of, known := field(m.block, "kind").(string); known && m.block.Kind == kind.Keyed {
		typ = "Keyed" + goTypes[kind.Lookup(of)]
		f.printf("func (n %s) %s(%sopts ...recipes.Option) %s {\nreturn %s{n.client.Keyed(%s, opts...)}\n}\n\n", g.typ, name, key, typ, typ, path)
		return
	}
	if m.block.Kind == kind.Once {
		f.printf("func (n %s) %s(%sopts ...recipes.Option) *once.Once {\nreturn once.New(n.client, %s, opts...)\n}\n\n", g.typ, name, key, path)
		return
	}
	if typ == "" {
		f.printf("func (n %s) %s(%s) string { return %s }\n\n", g.typ, name, params, path)
		return
	}
	f.printf("func (n %s) %s(%sopts ...recipes.Option) *recipes.%s {\nreturn n.client.%s(%s, opts...)\n}\n\n", g.typ, name, key, typ, typ, path)
}

// step is the last step of the member's address.
func (m *member) step() string { return typeName(m.block.Kind) + "." + m.block.Label }

// segment returns the Go expression for the part of a path that the member adds. In the generated code, the variable whose name is
// place has the address and path of the group around the member.
func (m *member) segment(place string) string {
	switch {
	case m.block.Kind == nil:
		return `""`
	case m.block.Name.Listed && m.block.Repeated:
		return fmt.Sprintf("listed(%s.at + %q + index(key))", place, m.step())
	case m.block.Name.Listed:
		return fmt.Sprintf("listed(%s.at + %q)", place, m.step())
	case m.block.Name.HasKey && m.block.Name.After != "":
		return fmt.Sprintf("%q + segment(key) + %q", "/"+m.block.Name.Before, m.block.Name.After)
	case m.block.Name.HasKey:
		return fmt.Sprintf("%q + segment(key)", "/"+m.block.Name.Before)
	}
	return strconv.Quote("/" + m.block.Name.Before)
}

// alias is a name that a lock, a namespace or a module had before it moved.
type alias struct {
	name     string
	from     plan.Addr
	addr     plan.Addr // the present address
	path     string    // below the root
	to       *member
	toMethod string
}

func (a *alias) deprecated() []string {
	return []string{fmt.Sprintf("%s is %s, which moved.", a.name, a.from), "", fmt.Sprintf("Deprecated: it is %s now, %s.", a.addr, a.toMethod)}
}

// aliases are the former names in a group. A name that is taken by now does not count.
func (f *goFile) aliases(g *group) (out []*alias) {
	moved := plan.Intent{Moves: f.code.Moves}
	for _, move := range f.code.Moves {
		a := &alias{name: exportName(move.From.Name()), from: move.From, addr: moved.Rename(move.To)}
		_, keyed := move.From.Key()
		outer := moved.Rename(move.From.Parent())
		taken := slices.ContainsFunc(g.members, func(m *member) bool { return m.name == a.name }) || slices.ContainsFunc(out, func(b *alias) bool { return b.name == a.name })
		if keyed || taken || a.name == "" || outer != outer.Block() || g.on.groups[outer] != g && (outer != "" || g.outer != nil) {
			continue
		}
		in := g.on.top
		if parent := a.addr.Parent().Block(); parent != "" {
			in = g.on.groups[parent]
		}
		if in == nil || !g.on.find(a) {
			continue
		}
		for _, m := range in.members {
			if m.block.Addr == a.addr.Block() {
				a.to, a.toMethod = m, in.typ+"."+m.name
				out = append(out, a)
			}
		}
	}
	return out
}

// find finds the group or node that an alias leads to. It returns false if the configuration without values does not name it.
func (t *tree) find(a *alias) bool {
	if a.addr.Type() == "module" {
		return a.addr == a.addr.Block() && t.groups[a.addr] != nil && !t.groups[a.addr].block.Repeated
	}
	for _, n := range t.ensemble.Nodes {
		if n.Addr == a.addr {
			a.path = n.Path
			return true
		}
	}
	return false
}
