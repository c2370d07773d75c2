package planview

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// header is the first line of a block as the configuration has it: semaphore "pool" "thumbnails". Only the address knows label and
// key.
func header(addr plan.Addr) string {
	text := addr.Type() + " " + view.Quote(addr.Name())
	if key, _ := addr.Key(); key != "" {
		text += " " + view.Quote(key)
	}
	return view.Clean(text)
}

// attributes lists what a block of a change shows: the path, what changes, and how many attributes stay unchanged.
func attributes(c *plan.Change) (shown []attribute, hidden int) {
	switch c.Action {
	case plan.Create:
		return wholeNode("+", c.After, ""), 0
	case plan.Delete:
		return wholeNode("-", c.Before, " -> null"), 0
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
	if c.Protect {
		shown = append(shown, attribute{symbol: "~", name: "prevent_destroy", text: fmt.Sprintf("%t -> %t", c.Before.Payload.Protect, c.After.Payload.Protect)})
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

// changedParams shows the parameters that differ. Different kinds have some parameters of the same name.
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

// find returns nil if no field has the name.
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

// wholeNode shows all of a node that is created or removed.
func wholeNode(symbol string, n *plan.Node, suffix string) []attribute {
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

// notables omits the defaults: a block shows the parameters that were chosen.
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

// listChange shows the removed and the added entries of an access list, and counts the others. Digests of one user look the same,
// because hashes are not shown: a comment says that they differ.
func listChange(d *plan.ACLDiff) (out []string) {
	// Entries are paired. If the servers hide the hash of an entry, it pairs with an entry that looks the same.
	var removed, unchanged kind.List
	added := entries(d.After)
	for _, a := range entries(d.Before) {
		i := slices.Index(added, a)
		if i < 0 && (kind.List{a}).Masked() {
			i = slices.IndexFunc(added, func(b kind.ACL) bool { return b.String() == a.String() })
		}
		if i < 0 {
			removed = append(removed, a)
		} else {
			added, unchanged = slices.Delete(added, i, i+1), append(unchanged, a)
		}
	}
	line := func(symbol string, a kind.ACL) {
		text := symbol + " " + view.Quote(a.String()) + ","
		if symbol == "~" || hasText(unchanged, a) {
			text += " # another digest of that user"
		}
		out = append(out, text)
	}
	for _, a := range removed {
		if hasText(added, a) {
			line("~", a)
		} else {
			line("-", a)
		}
	}
	for _, a := range added {
		if !hasText(removed, a) {
			line("+", a)
		}
	}
	if n := len(unchanged); n > 0 {
		out = append(out, fmt.Sprintf("  # (%d unchanged %s hidden)", n, view.PluralWord(n, "entry", "entries")))
	}
	return out
}

// entries returns the entries sorted, with one for each identity. Entries with a hidden hash may have different identities, so
// they stay apart.
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

// hasText reports whether the list shows an entry with the same text.
func hasText(list kind.List, entry kind.ACL) bool {
	return slices.ContainsFunc(list, func(b kind.ACL) bool { return b.String() == entry.String() })
}

// value writes a parameter in the language of the configuration.
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

// hasMoved reports whether the block had another address before.
func hasMoved(c *plan.Change) bool { return c.PreviousAddr != "" && c.PreviousAddr != c.Addr }

// captions are the comment lines over a block: the change, its reason, and the holders it affects.
func (t planText) captions(c *plan.Change) []string {
	addr := view.Clean(c.Addr)
	// If only the address changes, the apply writes the new address into the node. The lock stays as it is.
	if c.Action == plan.NoOp || hasMoved(c) && c.Action == plan.Update && len(c.Params) == 0 && c.ACL == nil && c.ChildACL == nil && !c.Protect &&
		c.Importing == "" && !c.Revive && len(c.MissingParts) == 0 {
		return []string{t.Paint(view.Bold)(fmt.Sprintf("# %s has moved to %s", view.Clean(c.PreviousAddr), addr))}
	}
	lines := []string{t.boldText("# " + addr + " " + verb(c))}
	if hasMoved(c) {
		lines = append(lines, fmt.Sprintf("# (moved from %s)", view.Clean(c.PreviousAddr)))
	}
	if c.Importing != "" {
		lines = append(lines, fmt.Sprintf("# (imported from %s)", view.Quote(c.Importing)))
	}
	if why := c.ReasonText(); why != "" && c.Reason != plan.ReasonReplaceByRequest {
		lines = append(lines, "# ("+view.Clean(why)+")")
	}
	if c.Action == plan.Create && c.Drift {
		lines = append(lines, deleted)
	}
	if c.Usage.Busy() {
		lines = append(lines, t.usage(c)...)
	}
	if text := c.Relists(); text != "" {
		lines = append(lines, "# ("+text+")")
	}
	return lines
}

// deleted is the comment on a lock that is created again because it was deleted by hand.
const deleted = "# (has been deleted outside of locktree)"

// boldText makes text bold, and red for changes that cannot be undone.
func (t planText) boldText(text string) string {
	for _, word := range []string{"destroyed", "replaced"} {
		if rest, ok := strings.CutSuffix(text, "be "+word); ok {
			return t.Paint(view.Bold)(rest+"be ") + t.Paint(view.Bold+";"+view.Red)(word)
		}
	}
	return t.Paint(view.Bold)(text)
}

// verb is what happens to the node, in Terraform's words if it has any.
func verb(c *plan.Change) string {
	switch {
	case c.Action == plan.Forget:
		return "will no longer be managed by locktree, but will not be destroyed"
	case c.Importing != "":
		return "will be imported"
	case c.Action == plan.Replace && c.Reason == plan.ReasonReplaceByRequest:
		return "will be replaced, as requested"
	}
	return map[plan.Action]string{
		plan.Create: "will be created", plan.Update: "will be updated in-place",
		plan.Delete: "will be destroyed", plan.Replace: "must be replaced",
	}[c.Action]
}

// gist is what a concise plan says after the address.
func gist(c *plan.Change) string {
	var parts []string
	if hasMoved(c) {
		parts = append(parts, "moved from "+string(c.PreviousAddr))
	}
	if c.Importing != "" {
		parts = append(parts, "imported from "+c.Importing)
	}
	if c.Action == plan.Create && c.Drift {
		parts = append(parts, strings.Trim(deleted, "#( )"))
	}
	if c.Action == plan.Update || c.Action == plan.Replace {
		shown, _ := attributes(c)
		for _, a := range shown[1:] { // the path comes first
			text := a.name
			if a.list == nil {
				text += " " + a.text
			}
			parts = append(parts, text)
		}
	}
	if why := c.ReasonText(); why != "" {
		parts = append(parts, why)
	}
	if u := c.Usage; u.Busy() && len(u.Holders)+len(u.Waiters) == 0 && u.Keys == (kind.Keys{}) {
		parts = append(parts, foreignIn(u))
	} else if u.Busy() {
		parts = append(parts, "in use")
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + view.Clean(strings.Join(parts, "; ")) + ")"
}

// usage says whom the change affects. If the lock must be idle for the change, it gives their names.
func (t planText) usage(c *plan.Change) []string {
	u := c.Usage
	switch foreign := foreignIn(u); {
	case c.NeedsIdle():
	case u.Keys != kind.Keys{}:
		return []string{fmt.Sprintf("# (%s; takes effect without interrupting holders)", view.Clean(u.String()))}
	case len(u.Holders)+len(u.Waiters) == 0:
		return []string{"# (not in use, but contains " + foreign + ")"}
	default:
		if foreign != "" {
			foreign = ", " + foreign
		}
		return []string{fmt.Sprintf("# (in use: %d held, %d waiting%s; takes effect without interrupting holders)", len(u.Holders), len(u.Waiters), foreign)}
	}
	text := "! IN USE: "
	if u.Keys != (kind.Keys{}) {
		text += u.Keys.String() + ": "
	}
	switch {
	case len(u.Holders) > 0:
		text += "held by " + kind.NewSight(u.Holders[0], time.UnixMilli(t.nowMs)).Line()
		if more := len(kind.PerClient(u.Holders)) - 1; more > 0 {
			text += fmt.Sprintf("; %d more hold it", more)
		}
	case len(u.Waiters) > 0:
		text += "no holder"
	case len(u.Junk) == 0:
		text = strings.TrimSuffix(text, ": ")
	default:
		text += foreignIn(u)
	}
	if n := len(kind.PerClient(u.Waiters)); n > 0 {
		text += fmt.Sprintf("; %d waiting", n)
	}
	return []string{t.Paint(view.Red)(text)}
}

// foreignIn counts what is in a lock besides contenders, "" if there is nothing.
func foreignIn(u *kind.Usage) string {
	if len(u.Junk) == 0 {
		return ""
	}
	return fmt.Sprintf("%d foreign %s", len(u.Junk), view.PluralWord(len(u.Junk), "child", "children"))
}
