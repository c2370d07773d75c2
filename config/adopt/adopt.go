// Package adopt writes configuration for znodes that exist: blocks that declare them, each with an import block.
//
//	made := adopt.Write(cfg, cfg.Ensembles[0], nodes, "found")
//	err := os.WriteFile("found.locktree.hcl", made.Source, 0o600)
//
// A caller finds the nodes and says what each is ([Existing]). The package relies on config for the present declarations. It
// reads no server. A block that would stop an apply becomes a comment that says why.
package adopt

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/internal/forms"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Existing is a znode that no stack manages, for [Write] to write a block for.
type Existing struct {
	Path   string
	Kind   *kind.Kind // nil if nothing tells the kind
	Params kind.Params
	ACL    kind.List
	Notes  []string // comments above the block
	Skip   string   // why it gets no block; "" if it gets one
	Stops  bool     // its block becomes a comment: an apply would stop at its import, and the notes say why
	Inside []*Existing
}

// Written is a configuration of existing znodes.
type Written struct {
	Source    []byte
	Imports   int // import blocks
	Commented int // import blocks in comments: their declarations belong in blocks that are declared already
	Locks     int // locks among all of these
	Unknown   int // idle nodes that are in comments, because nothing tells what they are
}

// Write writes blocks for the nodes, each with an import block. The blocks belong to ensemble e. The labels of principals and
// access lists begin with name.
func Write(c *config.Config, e *config.Ensemble, nodes []*Existing, name string) Written {
	g := &generator{prefix: labelFor(name),
		declared: map[string]*plan.Node{}, taken: map[string]bool{}, imported: map[string]bool{}}
	if len(c.Ensembles) > 1 {
		g.ensemble = e.Name
	}
	for _, other := range c.Ensembles {
		for _, n := range other.Tree.Nodes {
			g.taken[string(n.Addr)] = true
			if other == e {
				g.declared[n.Path] = n
			}
		}
	}
	for _, i := range e.Tree.Intent.Imports {
		g.imported[i.Path] = true
	}
	g.siblings(nodes, "", "")
	g.out.Source = hclwrite.Format([]byte(g.access() + g.blocks.String() + g.imports.String()))
	return g.out
}

// generator holds the state of one Write.
type generator struct {
	out      Written
	ensemble string // the ensemble argument of top-level blocks; "" if the configuration has only one ensemble
	prefix   string // of the labels of principals and access lists

	declared map[string]*plan.Node // what the configuration has already, by path
	taken    map[string]bool       // addresses that the configuration has
	imported map[string]bool       // paths that the configuration imports
	fragment bool                  // all output becomes a comment
	blocks   bytes.Buffer
	imports  bytes.Buffer
	lists    []string // the texts of access lists; the index makes the label
	names    []string // the texts of principals, likewise
}

// siblings writes the nodes of one level. The parameter in is the address of the block around them, with a dot behind it.
func (g *generator) siblings(nodes []*Existing, in, indent string) {
	for _, f := range nodes {
		d := g.declared[f.Path]
		switch {
		case d != nil:
			g.adoptDeclared(f, d)
		case f.Skip != "":
			fmt.Fprintf(&g.blocks, "\n%s# Left out: %s, because %s.\n", indent, printable(f.Path), printable(f.Skip))
		case (f.Kind == nil || f.Stops) && !g.fragment:
			g.writeUnknown(f, in, indent)
		default:
			g.block(f, in, indent)
		}
	}
}

// writeUnknown writes the declaration of an idle node as a comment, as if it were a mutex: its type is not known. It does the same
// for an idle node whose import would stop an apply.
func (g *generator) writeUnknown(f *Existing, in, indent string) {
	notes := []string{fmt.Sprintf("No program uses %s, so nothing tells what it is.", printable(f.Path)), "For a lock, correct the type, and remove the comment signs here and from the import."}
	if f.Stops {
		as := *f
		notes, as.Notes, f = append(slices.Clone(f.Notes), "Then remove the comment signs here and from the import."), nil, &as
		g.out.Unknown++
	}
	of := g.part()
	of.siblings([]*Existing{f}, in, "")
	g.lists, g.names, g.out.Unknown = of.lists, of.names, of.out.Unknown
	fmt.Fprintf(&g.blocks, "\n%s# %s\n", indent, strings.Join(notes, "\n"+indent+"# "))
	g.comment(&g.blocks, of.blocks.String(), indent)
	g.imports.WriteString("\n")
	g.comment(&g.imports, of.imports.String(), "")
}

// part is a generator whose output becomes a comment.
func (g *generator) part() *generator {
	of := *g
	of.blocks, of.imports, of.fragment = bytes.Buffer{}, bytes.Buffer{}, true
	return &of
}

// comment writes a piece of a configuration as a comment.
func (g *generator) comment(to *bytes.Buffer, text, indent string) {
	for line := range strings.Lines(string(hclwrite.Format([]byte(strings.TrimSpace(text) + "\n")))) {
		to.WriteString(strings.TrimRight(indent+"# "+line, " \n") + "\n")
	}
}

// adoptDeclared is for a node whose path the configuration declares already. It writes no second block. If no stack owns the node
// yet, it writes an import. A node in a declared namespace belongs into that namespace's block, which is in another file. So
// adoptDeclared writes its block as a comment, for a person to move.
func (g *generator) adoptDeclared(f *Existing, d *plan.Node) {
	switch {
	case f.Skip != "":
	case f.Kind != nil && f.Kind != d.Kind():
		fmt.Fprintf(&g.blocks, "\n# %s looks like a %s, and is declared as a %s at %s.\n", printable(f.Path), f.Kind.Name, d.Kind().Name, d.Origin)
	case !g.imported[f.Path]:
		g.importFrom(d.Kind(), string(d.Addr), f.Path)
	}
	var declared, others []*Existing
	for _, c := range f.Inside {
		if g.declared[c.Path] != nil {
			declared = append(declared, c)
		} else {
			others = append(others, c)
		}
	}
	g.siblings(declared, "", "")
	fragment := g.part()
	fragment.siblings(others, string(d.Addr)+".", "")
	g.lists, g.names = fragment.lists, fragment.names
	text := strings.TrimSpace(fragment.blocks.String() + fragment.imports.String())
	if text == "" {
		return
	}
	fmt.Fprintf(&g.blocks, "\n# The following belongs into %s, which is declared at %s; the import blocks go outside of it.\n", d.Addr, d.Origin)
	if fragment.out.Unknown > g.out.Unknown {
		g.blocks.WriteString("# Check the type of each mutex: nothing tells what an idle node is.\n")
	}
	g.out.Commented, g.out.Locks, g.out.Unknown = g.out.Commented+fragment.out.Imports-g.out.Imports, fragment.out.Locks, fragment.out.Unknown
	g.comment(&g.blocks, text, "")
}

func (g *generator) importFrom(k *kind.Kind, addr, from string) {
	if !k.Container {
		g.out.Locks++
	}
	fmt.Fprintf(&g.imports, "\nimport {\n  to = %s\n  path = %s\n}\n", addr, quoteText(from))
	g.out.Imports++
}

func (g *generator) block(f *Existing, in, indent string) {
	if f.Kind == nil {
		as := *f
		if as.Kind = kind.Namespace; len(f.Inside) == 0 {
			as.Kind = kind.Mutex
			g.out.Unknown++
		}
		as.Params, f = as.Kind.New(), &as
	}
	name := kind.BaseName(f.Path)
	label := labelFor(name)
	for n := 2; g.taken[in+f.Kind.Name+"."+label]; n++ {
		label = labelFor(name) + "-" + strconv.Itoa(n)
	}
	addr := in + f.Kind.Name + "." + label
	g.taken[addr] = true
	notes := f.Notes
	if masked(f.ACL) {
		notes = append(slices.Clone(notes), "Its access list cannot be written here: ZooKeeper shows digests only to administrators of",
			"the node. Without acl = ... it inherits a list from what is around it, and the plan shows the difference.")
	}
	if unwritten(f.ACL) {
		notes = append(slices.Clone(notes), "Its access list cannot be written here: the id of a principal is not in Unicode's form NFC.")
	}
	for _, note := range notes {
		fmt.Fprintf(&g.blocks, "\n%s# %s", indent, note)
	}
	fmt.Fprintf(&g.blocks, "\n%s%s %q {\n", indent, f.Kind.Name, label)
	set := func(name, value string) { fmt.Fprintf(&g.blocks, "%s  %s = %s\n", indent, name, value) }
	if label != name {
		set("name", quoteText(name))
	}
	if in == "" && g.ensemble != "" {
		set("ensemble", "ensemble."+g.ensemble)
	}
	if acl := g.acl(f.ACL); acl != "" {
		set("acl", "acl."+acl)
	}
	for _, p := range f.Params.Fields() {
		v := p.Get()
		if text, ok := v.(string); ok {
			v = quoteText(text)
		}
		if !p.Derived && (p.Required || p.Get() != p.Default) {
			set(p.Name, fmt.Sprint(v))
		}
	}
	g.importFrom(f.Kind, addr, f.Path)
	g.siblings(f.Inside, addr+".", indent+"  ")
	fmt.Fprintf(&g.blocks, "%s}\n", indent)
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

// printable returns text that fits into a comment: the name of a znode may contain a line end.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// masked reports whether the servers show a digest in the list without its hash. A declaration of such an entry would match no
// user.
func masked(list kind.List) bool {
	return slices.ContainsFunc(list, func(e kind.ACL) bool { return e.Scheme == "digest" && forms.CheckDigest(e.ID) != nil })
}

// unwritten reports whether an id cannot be written into a configuration unchanged.
func unwritten(list kind.List) bool {
	return slices.ContainsFunc(list, func(e kind.ACL) bool { return config.TextError(e.ID) != nil })
}

// acl returns the label of the acl block for this access list, "" if no block can express it.
func (g *generator) acl(list kind.List) string {
	if len(list) == 0 || masked(list) || unwritten(list) {
		return ""
	}
	allow, grants := "", ""
	for _, e := range list.Normalize() {
		principal := g.label(&g.names, fmt.Sprintf("  scheme = %q\n  id = %s\n", e.Scheme, quoteText(e.ID)))
		grants += fmt.Sprintf("  grant {\n    to = [principal.%s]\n    allow = %q\n  }\n", principal, e.Perms)
		if plan.Everybody(e) && e.Perms&^kind.PermRead != 0 {
			allow = "  allow_world = true\n"
		}
	}
	return g.label(&g.lists, allow+grants)
}

// label returns the label of the block with this text. It adds the block to blocks if it is missing.
func (g *generator) label(blocks *[]string, text string) string {
	i := slices.Index(*blocks, text)
	if i < 0 {
		i = len(*blocks)
		*blocks = append(*blocks, text)
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

// quoteText is s as HCL writes it.
func quoteText(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) }
