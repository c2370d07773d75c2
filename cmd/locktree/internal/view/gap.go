package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
)

// gapText says why nothing is known of a node.
func gapText(g *plan.Gap) string {
	switch g.Trouble {
	case "":
		return "missing"
	case plan.TroubleUnreadable:
		return "cannot be read: we do not have READ on it"
	}
	return clean("cannot be read: " + g.Detail)
}

// notSeen ends a line that counts what was seen.
func notSeen(missing, closed int) (text string) {
	if missing > 0 {
		text += fmt.Sprintf(", %d missing", missing)
	}
	if closed > 0 {
		text += fmt.Sprintf(", %d cannot be read", closed)
	}
	return text
}

// Closed are the paths of the gaps that exist but cannot be read.
func Closed(gaps []plan.Gap) (paths []string) {
	for _, g := range gaps {
		if g.Trouble != "" {
			paths = append(paths, g.Path)
		}
	}
	return paths
}

// FirstFew names the first three, and counts the rest.
func FirstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// unmanaged are the children of namespaces that this stack does not own, without its own that cannot be read.
func unmanaged(tree *plan.Tree, gaps []plan.Gap) []string {
	return slices.DeleteFunc(slices.Clone(tree.Unmanaged), func(path string) bool {
		return slices.ContainsFunc(gaps, func(g plan.Gap) bool { return g.Path == path })
	})
}

func gapsJSON(gaps []plan.Gap) (unreadable, missing []fields) {
	unreadable = []fields{}
	for i := range gaps {
		g := &gaps[i]
		f := fields{"address": g.Addr, "path": g.Path, "type": g.Type}
		if g.Trouble == "" {
			f["state"], f["holders"], f["waiters"], f["foreign"] = "missing", []fields{}, []fields{}, []string{}
			missing = append(missing, f)
			continue
		}
		f["reason"] = gapText(g)
		unreadable = append(unreadable, f)
	}
	return unreadable, missing
}
