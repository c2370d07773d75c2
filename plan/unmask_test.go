package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

func TestHiddenHashesAreRevealedWhereTheyAreKnown(t *testing.T) {
	list := func(ids ...string) (out kind.List) {
		for _, id := range ids {
			out = append(out, kind.ACL{Scheme: "digest", ID: id, Perms: kind.PermRead})
		}
		return out
	}
	first, second := plan.Digests{}, plan.Digests{}
	first.Add(list("a:1", "b:1", "b:2", "b:2", "c:x"))
	second.Add(append(list("a:3", "c:1", "d:1", "d:2"), kind.ACL{Scheme: "ip", ID: "e:1"}))
	for _, c := range []struct{ hidden, want kind.List }{
		{list("a:9", "z:9"), list("a:9", "z:9")},               // nothing is hidden
		{list("a:x"), list("a:1")},                             // the first that knows
		{list("b:x", "a:x", "b:x"), list("b:1", "a:1", "b:2")}, // as many as there are
		{list("b:x"), list("b:x")},                             // one of two: nobody knows which
		{list("c:x", "d:x", "e:x"), list("c:1", "d:x", "e:x")},
	} {
		before := fmt.Sprint(c.hidden)
		require.Equal(t, c.want, plan.Reveal(c.hidden, first, second))
		require.Equal(t, before, fmt.Sprint(c.hidden), "what was read is left as it is")
	}
}
