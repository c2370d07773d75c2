package kind_test

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// A client that may create a child can give it a number half the way round. It put the waiter before the holder for some orders
// of a server's list.
func TestOrderDoesNotDependOnTheListing(t *testing.T) {
	for _, names := range [][]string{
		{"a-lock-0000000005", "b-lock-0000000006", "x-lock--2147483642"},
		{"a-lock-0000000005", "b-lock-0000000006", "x-lock--2147483643"},
		{"a-lock-0000000005", "b-lock-0000000006", "c-lock-0000000007", "x-lock--1000000000", "y-lock-1500000000", "z-lock--2147483642"},
		{"a-lock-0000000005", "b-lock-0000000006", "x-lock-1431655770", "y-lock--1431655765"},
	} {
		for seed := range int64(200) {
			mixed := slices.Clone(names)
			rand.New(rand.NewSource(seed)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			queue, _ := kind.SortContenders(mixed)
			a := slices.IndexFunc(queue, func(c kind.Contender) bool { return c.Name == names[0] })
			b := slices.IndexFunc(queue, func(c kind.Contender) bool { return c.Name == names[1] })
			require.Less(t, a, b, "%v", queue)
			same, _ := kind.SortContenders(names)
			require.Equal(t, same, queue)
		}
	}
}
