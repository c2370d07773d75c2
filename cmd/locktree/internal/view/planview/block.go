package planview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// attribute is one line, or one bracketed list, of a block in a plan.
type attribute struct {
	symbol  string // "+", "~", "-" or " "
	name    string
	text    string   // the value, or "before -> after"
	list    []string // an access list instead, each line with its symbol
	comment string   // "forces replacement"
}

// header is the first line of a block as the configuration has it: semaphore "pool" "thumbnails". Only the address knows label and key.
func header(addr plan.Addr) string {
	text := addr.Type() + " " + view.Quote(addr.Name())
	if key, _ := addr.Key(); key != "" {
		text += " " + view.Quote(key)
	}
	return view.Clean(text)
}

// attributes lists what a block of a change shows: the path, what changes, and how many attributes do not.
func attributes(c *plan.Change) (shown []attribute, hidden int) {
	switch c.Action {
	case plan.Create:
		return whole("+", c.After, ""), 0
	case plan.Delete:
		return whole("-", c.Before, " -> null"), 0
	}
	shown = []attribute{{symbol: " ", name: "path", text: view.Quote(c.Path)}}
	if c.PreviousPath != "" {
		shown[0] = attribute{symbol: "~", name: "path", text: view.Quote(c.PreviousPath) + " -> " + view.Quote(c.Path), comment: "forces replacement"}
	}
	shown = append(shown, changedParams(c)...)
	for _, l := range []struct {
		name string
		diff *plan.ACLDiff
	}{{"acl", c.ACL}, {"contender_acl", c.ChildACL}} {
		if l.diff != nil {
			shown = append(shown, attribute{symbol: "~", name: l.name, list: listChange(l.diff)})
		}
	}
	if c.Protect != nil {
		shown = append(shown, attribute{symbol: "~", name: "prevent_destroy", text: fmt.Sprintf("%t -> %t", c.Protect.Before, c.Protect.After)})
	}
	if c.Revive {
		shown = append(shown, attribute{symbol: "~", name: "state", text: view.Quote(string(c.Before.Payload.State)) + ` -> "active"`})
	}
	for _, part := range c.MissingParts {
		shown = append(shown, attribute{symbol: "+", name: "node", text: view.Quote(c.Path + "/" + part)})
	}
	before := notables(c.Before)
	for _, f := range notables(c.After) {
		if old := find(before, f.Name); old != nil && old.Get() == f.Get() {
			hidden++
		}
	}
	if c.ACL == nil {
		hidden++
	}
	return shown, hidden
}

// changedParams shows the parameters that differ. Kinds have some in common, by name.
func changedParams(c *plan.Change) (out []attribute) {
	if kindOf(c.Before) == kindOf(c.After) {
		for _, p := range c.Params {
			a := attribute{symbol: "~", name: p.Name, text: value(p.Before) + " -> " + value(p.After)}
			if p.Replace {
				a.comment = "forces replacement"
			}
			out = append(out, a)
		}
		return out
	}
	out = []attribute{{symbol: "~", name: "type", text: fmt.Sprintf("%q -> %q", kindOf(c.Before), kindOf(c.After)), comment: "forces replacement"}}
	before, after := notables(c.Before), notables(c.After)
	for _, f := range before {
		if find(after, f.Name) == nil {
			out = append(out, attribute{symbol: "-", name: f.Name, text: value(f.Get()) + " -> null"})
		}
	}
	for _, f := range after {
		switch old := find(before, f.Name); {
		case old == nil:
			out = append(out, attribute{symbol: "+", name: f.Name, text: value(f.Get())})
		case old.Get() != f.Get():
			out = append(out, attribute{symbol: "~", name: f.Name, text: value(old.Get()) + " -> " + value(f.Get())})
		}
	}
	return out
}

// find is nil where no field has the name.
func find(fields []kind.Field, name string) *kind.Field {
	for i := range fields {
		if fields[i].Name == name {
			return &fields[i]
		}
	}
	return nil
}

func kindOf(n *plan.Node) string {
	if k := n.Kind(); k != nil {
		return k.Name
	}
	return ""
}

// whole shows all of a node that is created or removed.
func whole(symbol string, n *plan.Node, suffix string) []attribute {
	out := []attribute{{symbol: symbol, name: "path", text: view.Quote(n.Path) + suffix}}
	if n.Payload == nil {
		return out
	}
	for _, f := range notables(n) {
		out = append(out, attribute{symbol: symbol, name: f.Name, text: value(f.Get()) + suffix})
	}
	out = append(out, wholeList(symbol, "acl", n.ACL, suffix))
	if len(n.Payload.ChildACL) > 0 && !n.ACL.Equal(n.Payload.ChildACL) {
		out = append(out, wholeList(symbol, "contender_acl", n.Payload.ChildACL, suffix))
	}
	if n.Payload.Protect {
		out = append(out, attribute{symbol: symbol, name: "prevent_destroy", text: "true" + suffix})
	}
	return out
}

// notables leaves out the defaults: a block shows the parameters that were chosen.
func notables(n *plan.Node) []kind.Field {
	if n.Payload == nil {
		return nil
	}
	return slices.DeleteFunc(n.Payload.Params.Fields(), func(f kind.Field) bool { return !f.Required && f.Get() == f.Default })
}

// wholeList writes an access list with one entry on one line.
func wholeList(symbol, name string, list kind.List, suffix string) attribute {
	if list = list.Normalize(); len(list) == 1 {
		return attribute{symbol: symbol, name: name, text: "[" + view.Quote(list[0].String()) + "]" + suffix}
	}
	a := attribute{symbol: symbol, name: name, list: []string{}}
	for _, entry := range list {
		a.list = append(a.list, symbol+" "+view.Quote(entry.String())+",")
	}
	return a
}

// listChange shows the entries of an access list that go and come, and counts the others. Digests of one user look the same, because
// their hashes are not shown: a comment says that they differ.
func listChange(d *plan.ACLDiff) []string {
	gone, come, stay := split(entries(d.Before), entries(d.After))
	const other = " # another digest of that user"
	var out []string
	line := func(symbol string, a kind.ACL) {
		text := symbol + " " + view.Quote(a.String()) + ","
		if symbol == "~" || reads(stay, a) {
			text += other
		}
		out = append(out, text)
	}
	for _, a := range gone {
		if reads(come, a) {
			line("~", a)
		} else {
			line("-", a)
		}
	}
	for _, a := range come {
		if !reads(gone, a) {
			line("+", a)
		}
	}
	if n := len(stay); n > 0 {
		out = append(out, fmt.Sprintf("  # (%d unchanged %s hidden)", n, view.PluralWord(n, "entry", "entries")))
	}
	return out
}

// entries are sorted, and those of one identity are one. Entries whose hash is hidden may be of several identities: they stay apart.
func entries(list kind.List) kind.List {
	var shown, hidden kind.List
	for _, a := range list {
		if (kind.List{a}).Masked() {
			hidden = append(hidden, a)
		} else {
			shown = append(shown, a)
		}
	}
	out := append(shown.Normalize(), hidden...)
	slices.SortStableFunc(out, func(a, b kind.ACL) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// split pairs the entries of two lists. The servers may hide the hash of an entry, which then pairs with one that reads the same.
func split(before, after kind.List) (gone, come, stay kind.List) {
	come = after
	for _, a := range before {
		i := slices.Index(come, a)
		if i < 0 && (kind.List{a}).Masked() {
			i = slices.IndexFunc(come, func(b kind.ACL) bool { return b.String() == a.String() })
		}
		if i < 0 {
			gone = append(gone, a)
			continue
		}
		come = slices.Delete(come, i, i+1)
		stay = append(stay, a)
	}
	return gone, come, stay
}

// reads reports whether an entry of the list looks like a.
func reads(list kind.List, a kind.ACL) bool {
	return slices.ContainsFunc(list, func(b kind.ACL) bool { return b.String() == a.String() })
}

// value writes a parameter as the configuration would.
func value(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return view.Quote(v)
	default:
		return fmt.Sprint(v)
	}
}
