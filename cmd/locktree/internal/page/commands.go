package page

import (
	"strings"

	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// look is the command that shows a lock.
func (e *Ensemble) look(path string) string { return e.command("status", path) }

// command is a command about a lock. Where there is no configuration, it says on which servers.
func (e *Ensemble) command(verb, path string) string {
	text := "locktree " + verb + " " + shellWord(path)
	if e.Stack == "" && e.Servers != "" {
		text += " -servers=" + shellWord(e.Servers)
	}
	return text
}

// evict asks somebody for a lock, or takes a place away. Who is told by the session where the name is nothing to type.
func (e *Ensemble) evict(verb, path string, c inspect.Contender) string {
	whom := c.ID
	if whom == "" || clip(whom) != whom || len(whom) > 60 {
		whom = document.Session(c.Session)
	}
	return e.command(verb, path) + " -holder=" + shellWord(whom)
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if s = kind.Visible(s); strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
