package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// generator writes what a survey found as configuration.
type generator struct {
	root     string
	ensemble string // to be named on blocks at the top, "" where there is one
	moved    bool   // the subtree stands outside the root: it is imported to another path
	prefix   string // of the names of principals and access lists

	declared map[string]*plan.Node // what the configuration has already, by path
	taken    map[string]bool       // addresses it has
	imported map[string]bool       // paths it imports
	blocks   bytes.Buffer
	imports  bytes.Buffer
	count    int
	left     int      // imports written as comments
	locks    int      // imports of locks, comments included
	lists    []string // access lists, by their text; the place makes the name
	names    []string // principals, likewise
}

// generate writes the file, for its owner only: it names digests. Then it loads
// the configuration with it, so that what does not fit is said now.
func (a *app) generate(cfg *config.Config, e *config.Ensemble, top, whole *found, f *importFlags) error {
	g := newGenerator(cfg, e, f.generate)
	if len(cfg.Ensembles) > 1 {
		g.ensemble = e.Name
	}
	g.moved = !below(top.path, e.Root)
	if g.moved {
		a.view().Message(fmt.Sprintf("%s is outside of the ensemble's root, %s. An import from there moves each lock: it continues at the path its block stands for, and its old node "+
			"says so. Programs of this library follow; Curator, kazoo and others stay at the old path. To keep the paths, give the ensemble a root around them.", top.path, e.Root))
	}
	tops := []*found{whole}
	if top.path == e.Root {
		tops = top.children
	}
	g.siblings(tops, "", "")
	if g.locks == 0 {
		return view.Failf("Nothing to generate", "No lock was recognised below %s. -empty-as=TYPE takes nodes nobody uses for locks of that type.", top.path)
	}
	src := hclwrite.Format([]byte(fmt.Sprintf("# What \"locktree import -from %s\" found. Read it, change what is not right, then plan.\n%s%s%s",
		top.path, g.access(), g.blocks.String(), g.imports.String())))
	if err := writeNew(a.path(f.generate), src); err != nil {
		return view.Failf("Cannot write "+f.generate, "%v. Choose another file for -generate.", err)
	}
	a.view().Message(fmt.Sprintf("Wrote %s to %s. Nothing was written to ZooKeeper: \"locktree plan\" shows what an apply would do.", view.Plural(g.count, "import block"), f.generate))
	if g.left > 0 {
		a.view().Message(fmt.Sprintf("%d more stand in it as comments: they belong into blocks that are declared already. Move them there.", g.left))
	}
	_, err := a.load(&f.loadFlags)
	return err
}

func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

func newGenerator(cfg *config.Config, e *config.Ensemble, file string) *generator {
	g := &generator{root: e.Root, prefix: labelFor(strings.TrimSuffix(path.Base(file), ".locktree.hcl")),
		declared: map[string]*plan.Node{}, taken: map[string]bool{}, imported: map[string]bool{}}
	for _, other := range cfg.Ensembles {
		for _, n := range other.Tree.Nodes {
			g.taken[n.Addr] = true
			if other == e {
				g.declared[n.Path] = n
			}
		}
	}
	for _, i := range e.Tree.Intent.Imports {
		g.imported[i.Path] = true
	}
	return g
}

// into is what is found where the configuration declares something already: no
// second block, but an import when the node is nobody's yet. What stands in a
// declared namespace belongs into its block, which is in another file: that is
// written as a comment, for somebody to move.
func (g *generator) into(f *found, d *plan.Node) {
	switch {
	case f.skip != "":
	case f.kind != nil && f.kind != d.Kind():
		fmt.Fprintf(&g.blocks, "\n# %s looks like a %s, and is declared as a %s at %s.\n", view.Clean(f.path), f.kind.Name, d.Kind().Name, d.Origin)
	case !g.imported[f.path]:
		g.importFrom(d.Kind(), d.Addr, f.path)
	}
	var declared, others []*found
	for _, c := range f.children {
		if g.declared[c.path] != nil {
			declared = append(declared, c)
		} else {
			others = append(others, c)
		}
	}
	g.siblings(declared, "", "")
	fragment := *g
	fragment.blocks, fragment.imports = bytes.Buffer{}, bytes.Buffer{}
	fragment.siblings(others, d.Addr+".", "")
	g.lists, g.names = fragment.lists, fragment.names
	text := strings.TrimSpace(fragment.blocks.String() + fragment.imports.String())
	if text == "" {
		return
	}
	g.left, g.locks = g.left+fragment.count-g.count, fragment.locks
	fmt.Fprintf(&g.blocks, "\n# What follows belongs into %s, which is declared at %s; the import blocks go outside of it.\n", d.Addr, d.Origin)
	for line := range strings.Lines(string(hclwrite.Format([]byte(text + "\n")))) {
		g.blocks.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
}

func (g *generator) importFrom(k *kind.Kind, addr, from string) {
	if !k.Container {
		g.locks++
	}
	fmt.Fprintf(&g.imports, "\nimport {\n  to = %s\n  path = %s\n}\n", addr, literal(from))
	g.count++
}

// siblings writes the nodes of one level; in is the address of the block around,
// with a dot behind it.
func (g *generator) siblings(nodes []*found, in, indent string) {
	for _, f := range nodes {
		if d := g.declared[f.path]; d != nil && !g.moved {
			g.into(f, d)
			continue
		}
		switch {
		case f.skip != "":
			fmt.Fprintf(&g.blocks, "\n%s# Left out: %s, because %s.\n", indent, view.Clean(f.path), view.Clean(f.skip))
			continue
		case f.kind == nil:
			fmt.Fprintf(&g.blocks, "\n%s# Left out: %s, because nobody uses it, and so nothing tells what it is.\n", indent, view.Clean(f.path))
			continue
		}
		name := path.Base(f.path)
		label := labelFor(name)
		for n := 2; g.taken[in+f.kind.Name+"."+label]; n++ {
			label = labelFor(name) + "-" + strconv.Itoa(n)
		}
		g.taken[in+f.kind.Name+"."+label] = true
		g.block(f, name, label, in, indent)
	}
}

// labelFor makes an identifier of a znode's name, because addresses consist of them.
func labelFor(name string) string {
	label := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name)
	if !hclsyntax.ValidIdentifier(label) {
		label = "n" + label
	}
	return label
}

func (g *generator) block(f *found, name, label, in, indent string) {
	if masked(f.acl) {
		f.notes = append(f.notes, "Its access list cannot be written here: the servers hide its digests from who is not an administrator",
			"of the node. Without acl = ... it gets that of what is around it, and the plan shows the difference.")
	}
	for _, note := range f.notes {
		fmt.Fprintf(&g.blocks, "\n%s# %s", indent, note)
	}
	fmt.Fprintf(&g.blocks, "\n%s%s %q {\n", indent, f.kind.Name, label)
	if label != name {
		fmt.Fprintf(&g.blocks, "%s  name = %s\n", indent, literal(name))
	}
	if in == "" && g.ensemble != "" {
		fmt.Fprintf(&g.blocks, "%s  ensemble = ensemble.%s\n", indent, g.ensemble)
	}
	if acl := g.acl(f.acl); acl != "" {
		fmt.Fprintf(&g.blocks, "%s  acl = acl.%s\n", indent, acl)
	}
	for _, p := range f.params.Fields() {
		if v := p.Get(); p.Required || v != p.Default {
			fmt.Fprintf(&g.blocks, "%s  %s = %s\n", indent, p.Name, literal(v))
		}
	}
	addr := in + f.kind.Name + "." + label
	if !g.moved || !f.kind.Container {
		g.importFrom(f.kind, addr, f.path)
	}
	g.siblings(f.children, addr+".", indent+"  ")
	fmt.Fprintf(&g.blocks, "%s}\n", indent)
}

func literal(v any) string {
	switch v := v.(type) {
	case string:
		return string(hclwrite.TokensForValue(cty.StringVal(v)).Bytes())
	default:
		return fmt.Sprint(v)
	}
}

// masked: the servers show a digest without its hash.
func masked(list []kind.ACL) bool {
	return slices.ContainsFunc(list, func(e kind.ACL) bool {
		_, hash, _ := strings.Cut(e.ID, ":")
		return e.Scheme == "digest" && len(hash) != 28
	})
}

// acl names the block that says what the access list says, "" where none can: a
// digest the servers mask is nobody's.
func (g *generator) acl(list []kind.ACL) string {
	var grants []string
	text := ""
	if masked(list) {
		return ""
	}
	for _, e := range kind.NormalizeACL(list) {
		grants = append(grants, fmt.Sprintf("  grant {\n    to = [principal.%s]\n    allow = %q\n  }\n", g.principal(e), e.Perms))
		if e.Scheme == "world" && e.Perms&^kind.PermRead != 0 {
			text = "  allow_world = true\n"
		}
	}
	if len(grants) == 0 {
		return ""
	}
	text += strings.Join(grants, "")
	i := slices.Index(g.lists, text)
	if i < 0 {
		i, g.lists = len(g.lists), append(g.lists, text)
	}
	return g.prefix + "-" + strconv.Itoa(i+1)
}

func (g *generator) principal(e kind.ACL) string {
	text := fmt.Sprintf("  scheme = %q\n  id = %s\n", e.Scheme, literal(e.ID))
	i := slices.Index(g.names, text)
	if i < 0 {
		i, g.names = len(g.names), append(g.names, text)
	}
	return g.prefix + "-" + strconv.Itoa(i+1)
}

// access are the principals and access lists that were used.
func (g *generator) access() string {
	var b strings.Builder
	for i, text := range g.names {
		fmt.Fprintf(&b, "\nprincipal \"%s-%d\" {\n%s}\n", g.prefix, i+1, text)
	}
	for i, text := range g.lists {
		fmt.Fprintf(&b, "\nacl \"%s-%d\" {\n%s}\n", g.prefix, i+1, text)
	}
	return b.String()
}

// chosenEnsemble is the one that is named, or the only one.
func chosenEnsemble(cfg *config.Config, name string) (*config.Ensemble, error) {
	var names []string
	for _, e := range cfg.Ensembles {
		if e.Name == name || name == "" && len(cfg.Ensembles) == 1 {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, view.Failf("Which ensemble", "-ensemble=%s: there are %s. Name one of them.", name, strings.Join(names, ", "))
}

// declareImport adds an import block that stands nowhere.
func declareImport(cfg *config.Config, addr, path string) error {
	if err := kind.ValidatePath(path); err != nil {
		return view.Failf("Illegal path", "%q: %v.", path, err)
	}
	for _, e := range cfg.Ensembles {
		for _, n := range e.Tree.Nodes {
			if n.Addr == addr {
				if i := slices.IndexFunc(e.Tree.Intent.Imports, func(i plan.Import) bool { return i.To == addr || i.Path == path }); i >= 0 {
					return beside(e.Tree.Intent.Imports[i], addr, path)
				}
				e.Tree.Intent.Imports = append(e.Tree.Intent.Imports, plan.Import{To: addr, Path: path, Target: n.Path, Origin: n.Origin, ByCommand: true})
				return nil
			}
		}
	}
	return view.Failf("Address is not declared", "Nothing is declared at %s. Declare it first%s: the import then says which znode becomes it. \"locktree import -from PATH -generate FILE\" writes the declarations, too.", addr, blockOf(addr))
}

// beside is what an import block says against an import from the command line that has
// its address or its path: nothing when it is the same. Two znodes would become one
// lock, or one znode two.
func beside(block plan.Import, addr, path string) error {
	switch {
	case block.To == addr && block.Path == path:
		return nil
	case block.To == addr:
		return view.Failf("Imported twice", "%s is imported from %s at %s. Give that path, or change the block.", addr, block.Path, block.Origin)
	}
	return view.Failf("Imported twice", "%s becomes %s at %s, and one znode is one lock. Delete that block, or give another path.", path, block.To, block.Origin)
}

// blockOf is how the block of an address begins, as advice; "" where it takes more.
func blockOf(addr string) string {
	parts := strings.Split(addr, ".")
	if len(parts) < 2 || strings.ContainsAny(addr, "[]") || kind.Lookup(parts[len(parts)-2]) == nil {
		return ""
	}
	where := ""
	if len(parts) > 2 {
		where = " in its namespace"
	}
	return fmt.Sprintf(", as %s %q {}%s", parts[len(parts)-2], parts[len(parts)-1], where)
}
