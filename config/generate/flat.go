package generate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// leaf is a lock as Java and Python see it: all of them are in one class.
type leaf struct {
	*config.Block
	labels []string // of the blocks around it, its own and its kind
	Params []string // one for each for_each on the way to it
	terms  []string // of the path below the root, in the language
	text   string   // behind them

	Name    string // an identifier of its own
	Classes []client
}

// client is a class of a client library that takes a lock.
type client struct {
	Name   string
	from   string // the package below that of the recipes
	Suffix string // of the method that makes one
	Param  string // what a program adds to the parameters of the path, unless it is declared
	Arg    string // the same as an argument
}

// language is how code is written.
type language struct {
	template    string
	quote       func(string) string
	text        func(string) string         // as a comment
	key, listed string                      // formats of a call
	name        func(words []string) string // an identifier; "" if there is none
	clients     map[*kind.Kind]map[string][]client
}

// write fills the template, with more than what all languages have.
func (l language) write(code *config.Code, on *config.CodeEnsemble, data map[string]any) []byte {
	locks := l.leaves(on.Blocks, leaf{})
	var imports []string
	for i, name := range identifiers(locks, l.name) {
		lock := &locks[i]
		wire, _ := lock.Wire().(string)
		lock.Name, lock.Classes = name, l.clients[lock.Kind][wire]
		for _, c := range lock.Classes {
			imports = append(imports, c.from+"."+c.Name)
		}
	}
	slices.Sort(imports)
	data["Stack"], data["Ensemble"], data["Locks"], data["Imports"] = code.Stack, on, locks, slices.Compact(imports)
	data["Listed"], data["Keyed"] = listedNames(on), slices.ContainsFunc(locks, leaf.Family)
	functions := template.FuncMap{"quote": l.quote, "text": l.text, "escaped": escaped, "list": list, "join": strings.Join}
	var b bytes.Buffer
	if err := template.Must(template.New("").Funcs(functions).Parse(l.template)).Execute(&b, data); err != nil {
		panic(err) // the template is wrong
	}
	return b.Bytes()
}

// list is a list of parameters, each behind a type, and more of them.
func list(typ string, params []string, more ...string) string {
	var all []string
	for _, p := range params {
		all = append(all, typ+p)
	}
	return strings.Join(append(all, more...), ", ")
}

// leaves are the locks of an ensemble, by address.
func (l language) leaves(blocks []*config.Block, outer leaf) (out []leaf) {
	for _, b := range blocks {
		in := outer
		in.Block, in.labels = b, append(slices.Clip(outer.labels), b.Label)
		if b.Repeated {
			in.Params = append(slices.Clip(in.Params), fmt.Sprintf("key%d", len(in.Params)+1))
		}
		if b.Kind != nil {
			in.text += "/" + b.Name.Before
		}
		name := ""
		if b.Name.Listed {
			name = fmt.Sprintf(l.listed, list("", []string{l.quote(string(b.Addr))}, in.Params...))
		} else if b.Name.HasKey {
			name = fmt.Sprintf(l.key, in.Params[len(in.Params)-1])
		}
		if name != "" {
			in.terms, in.text = append(slices.Clip(in.terms), l.quote(in.text), name), b.Name.After
		}
		if b.Kind == nil || b.Kind.Container {
			out = append(out, l.leaves(b.Blocks, in)...)
			continue
		}
		if in.labels = append(in.labels, b.Kind.Name); in.text != "" {
			in.terms = append(slices.Clip(in.terms), l.quote(in.text))
		}
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b leaf) int { return strings.Compare(string(a.Addr), string(b.Addr)) })
	return out
}

// Path is an expression for the path of the lock below the root.
func (l leaf) Path() string { return strings.Join(l.terms, " + ") }

// Family reports whether each key has a lock of its own.
func (l leaf) Family() bool { return l.Kind == kind.Keyed }

// Fanout is what a family declares; 0 for none.
func (l leaf) Fanout() int {
	n, _ := strconv.Atoi(fmt.Sprint(field(l.Block, "fanout"))) // a closed set of numbers, or nothing
	return n
}

// Wire is whose contenders share the lock; nil if it depends on a variable.
func (l leaf) Wire() any { return field(l.Block, "wire") }

// Permits are those of a semaphore; nil if they depend on a variable.
func (l leaf) Permits() any { return field(l.Block, "permits") }

// About are the lines of a comment.
func (l leaf) About() []string { return append([]string{string(l.Addr) + "."}, facts(l.Block)...) }

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

// listedName is an entry of the table for paths without a rule.
type listedName struct {
	Address []string // the block and the keys
	Name    string
}

func listedNames(e *config.CodeEnsemble) (out []listedName) {
	listed := listedBlocks(e.Blocks)
	for _, n := range e.Nodes {
		if !listed[n.Addr.Block()] {
			continue
		}
		address := []string{}
		for at := n.Addr; at != ""; at = at.Parent() {
			if key, ok := at.Key(); ok {
				address = append(address, key)
			}
		}
		address = append(address, string(n.Addr.Block()))
		slices.Reverse(address)
		out = append(out, listedName{address, kind.BaseName(n.Path)})
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
