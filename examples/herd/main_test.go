package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

// One release wakes every client if all watch the parent, and otherwise a few at most.
func TestHerd(t *testing.T) {
	var out strings.Builder
	require.NoError(t, showHerd(t.Context(), &out))
	for _, want := range []string{
		`10  all watch the parent +1[01] `, `200  all watch the parent +20[01] `,
		`10  each watches the one before it +1 `, `200  each watches the one before it +1 `, `200  locktree +[1-6] `,
	} {
		require.Regexp(t, want, out.String())
	}
}

// A way to wait that fails ends the count. The count waited for ever for a queue that was never complete.
func TestHerdEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	_, err := countRelease(t.Context(), 2, func(context.Context, *recipes.Client, string, <-chan struct{}) (func() error, error) {
		return nil, broken
	})
	require.ErrorIs(t, err, broken)
}
