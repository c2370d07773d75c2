package planview

import (
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// moved reports whether the block had another address before.
func moved(c *plan.Change) bool { return c.PreviousAddr != "" && c.PreviousAddr != c.Addr }

// captions are the comment lines over a block: the change, its reason, and the holders it affects.
func (t planText) captions(c *plan.Change) []string {
	addr := view.Clean(c.Addr)
	// A block that was only renamed updates its node, which names its owner, and leaves the lock as it is.
	if c.Action == plan.NoOp || moved(c) && c.Action == plan.Update && len(c.Params) == 0 && c.ACL == nil && c.ChildACL == nil && c.Protect == nil &&
		c.Importing == "" && !c.Revive && len(c.MissingParts) == 0 {
		return []string{t.Paint(view.Bold)(fmt.Sprintf("# %s has moved to %s", view.Clean(c.PreviousAddr), addr))}
	}
	lines := []string{t.loud("# " + addr + " " + verb(c))}
	if moved(c) {
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

// deleted is why a lock is created that was there.
const deleted = "# (has been deleted outside of locktree)"

// loud is bold, and red for changes that cannot be undone.
func (t planText) loud(text string) string {
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
	if moved(c) {
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

// usage says whom the change affects, by name if the lock must be idle for it.
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
		text += "nobody holds it"
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
