package eval

import (
	"maps"
	"slices"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

const maxStack = 128

// Stack returns the ownership id. It is the name of a znode.
func (e *Evaluation) Stack() string {
	if e.Declared.Settings == nil {
		e.Errorf(syntax.FileStart(slices.Min(slices.Collect(maps.Keys(e.Declared.Files.Files)))), "No stack", "A configuration must name its stack, so that no other configuration touches its nodes: add locktree { stack = \"NAME\" }.")
		return ""
	}
	a := e.Declared.Settings.Block.Arg("stack")
	s := e.scope(e.Declared.Settings)
	stack, ok := s.text(a)
	if !ok {
		if s.unknown(a) {
			e.Errorf(a.Expr.Range(), "Not known to programs", "The name of the stack depends on %s. Write it out, or give the variables defaults.", e.Reasons(a))
		}
		return ""
	}
	err := kind.ValidateName(stack)
	switch {
	case err != nil:
		s.wrong(a, "Invalid stack", plan.Sentence(err.Error()))
	case len(stack) > maxStack:
		s.wrong(a, "Invalid stack", "A stack's name is written into every node: use at most 128 bytes.")
	}
	return stack
}
