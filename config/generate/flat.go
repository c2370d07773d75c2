package generate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// leaf is a lock as Java and Python see it: all of them are in one class.
type leaf struct {
	*config.Block
	labels []string // of the blocks around it, its own and its kind
	params []string // one for each for_each on the way to it
	path   []part
}

// part is a part of a path: text, a key, or what the keys of a block are listed with.
type part struct {
	text   string
	key    string // a parameter
	node   plan.Addr
	listed []string // parameters
}

// language is how a path is written.
type language struct {
	quote       func(string) string
	key, listed string // formats of a call
}

// leaves are the locks of an ensemble, by address.
func leaves(blocks []*config.Block, outer leaf) (out []leaf) {
	for _, b := range blocks {
		in := leaf{b, append(slices.Clone(outer.labels), b.Label), slices.Clone(outer.params), slices.Clone(outer.path)}
		if b.Repeated {
			in.params = append(in.params, fmt.Sprintf("key%d", len(in.params)+1))
		}
		switch {
		case b.Kind == nil:
		case b.Name.Listed:
			in.path = append(in.path, part{text: "/"}, part{node: b.Addr, listed: in.params})
		case b.Name.HasKey:
			in.path = append(in.path, part{text: "/" + b.Name.Before}, part{key: in.params[len(in.params)-1]}, part{text: b.Name.After})
		default:
			in.path = append(in.path, part{text: "/" + b.Name.Before})
		}
		if b.Kind == nil || b.Kind.Container {
			out = append(out, leaves(b.Blocks, in)...)
			continue
		}
		in.labels = append(in.labels, b.Kind.Name)
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b leaf) int { return strings.Compare(string(a.Addr), string(b.Addr)) })
	return out
}

// keyed reports whether there is a family of locks.
func keyed(all []leaf) bool { return slices.ContainsFunc(all, leaf.family) }

func (l leaf) family() bool { return l.Kind == kind.Keyed }

// fanout is what a family declares; 0 for none.
func (l leaf) fanout() int {
	n, _ := strconv.Atoi(fmt.Sprint(field(l.Block, "fanout"))) // a closed set of numbers, or nothing
	return n
}

// embedded is what follows the docstring or the imports of a file, which the generated one has of its own.
func embedded(file, after string) string {
	_, rest, _ := strings.Cut(file, after)
	return rest
}

// in writes the path of a lock below the root.
func (l language) in(path []part) string {
	var terms []string
	text := ""
	flush := func() {
		if text != "" {
			terms = append(terms, l.quote(text))
		}
		text = ""
	}
	for _, p := range path {
		if text += p.text; p.text != "" || p.key == "" && p.node == "" {
			continue
		}
		flush()
		if p.key != "" {
			terms = append(terms, fmt.Sprintf(l.key, p.key))
		} else {
			terms = append(terms, fmt.Sprintf(l.listed, strings.Join(append([]string{l.quote(string(p.node))}, p.listed...), ", ")))
		}
	}
	flush()
	return strings.Join(terms, " + ")
}

// about are the lines of a comment.
func (l leaf) about() []string {
	return append([]string{string(l.Addr) + "."}, facts(l.Block)...)
}

// identifiers are those of the locks.
func identifiers(all []leaf, join func(words []string) string) []string {
	var lists [][]string
	for _, l := range all {
		var parts []string
		for _, label := range l.labels {
			parts = append(parts, words(label)...)
		}
		lists = append(lists, []string{join(parts), "lock_" + escaped(string(l.Addr))})
	}
	return distinct(lists)
}

// listedBlocks are the blocks whose names are listed.
func listedBlocks(blocks []*config.Block) map[plan.Addr]bool {
	listed := map[plan.Addr]bool{}
	for _, b := range blocks {
		listed[b.Addr] = b.Name.Listed
		maps.Copy(listed, listedBlocks(b.Blocks))
	}
	return listed
}

// listedNames are the entries of the table for paths without a rule: the block and the keys, and the name.
func listedNames(e *config.CodeEnsemble) (out [][]string) {
	listed := listedBlocks(e.Blocks)
	for _, n := range e.Nodes {
		if !listed[n.Addr.Block()] {
			continue
		}
		entry := []string{kind.BaseName(n.Path)}
		for at := n.Addr; at != ""; at = at.Parent() {
			if key, ok := at.Key(); ok {
				entry = append([]string{key}, entry...)
			}
		}
		out = append(out, append([]string{string(n.Addr.Block())}, entry...))
	}
	return out
}

// quoted is a string as Java and Python both write it: what is not ASCII is escaped by UTF-16 units for Java, by code points else.
func quoted(text string, units bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff && !units:
			fmt.Fprintf(&b, `\U%08x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case units && (r == '\n' || r == '\r'): // Java replaces \u000a before it reads the string
			b.WriteString(map[rune]string{'\n': `\n`, '\r': `\r`}[r])
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String() + `"`
}
