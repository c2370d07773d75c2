package kind_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// A list gives a right for certain, or perhaps: servers hide hashes, and only they can match some entries.
func TestRightsThatCannotBeToldAreNotCertain(t *testing.T) {
	const r, w, a, all = kind.PermRead, kind.PermWrite, kind.PermAdmin, kind.PermAll
	ann, alike, hidden := kind.ACL{Scheme: "digest", ID: "ann:1"}, kind.ACL{Scheme: "digest", ID: "ann:2"}, kind.ACL{Scheme: "digest", ID: "ann:x"}
	with := func(who kind.ACL, p kind.Perm) kind.List { who.Perms = p; return kind.List{who} }
	none := []kind.Perm{0, 0}
	for name, c := range map[string]struct {
		list         kind.List
		rights, ours []kind.Perm // surely, perhaps
	}{
		"hers":                        {with(ann, all), []kind.Perm{all, 0}, []kind.Perm{all, 0}},
		"of her other password":       {with(alike, all), none, none},
		"a hidden hash":               {with(hidden, r|w), []kind.Perm{0, r | w}, []kind.Perm{0, r | w}},
		"a hidden hash with ADMIN":    {with(hidden, r|a), []kind.Perm{0, r | a}, none},
		"everybody":                   {with(kind.ACL{Scheme: "world", ID: "anyone"}, r), []kind.Perm{r, 0}, []kind.Perm{r, 0}},
		"an address":                  {with(kind.ACL{Scheme: "ip", ID: "10.0.0.1"}, all), []kind.Perm{0, all}, []kind.Perm{0, all}},
		"another name of SASL":        {with(kind.ACL{Scheme: "sasl", ID: "ann"}, all), none, none},
		"another certificate":         {with(kind.ACL{Scheme: "x509", ID: "CN=ann"}, all), none, none},
		"surely, and perhaps as well": {append(with(ann, r), with(hidden, w)...), []kind.Perm{r, w}, []kind.Perm{r, w}},
	} {
		t.Run(name, func(t *testing.T) {
			sure, perhaps := c.list.Rights(ann)
			require.Equal(t, c.rights, []kind.Perm{sure, perhaps})
			sure, perhaps = c.list.Ours(ann)
			require.Equal(t, c.ours, []kind.Perm{sure, perhaps}, "whoever has ADMIN is shown all hashes")
		})
	}
	sure, _ := with(kind.ACL{Scheme: "ip", ID: "10.0.0.1"}, all).Rights(kind.ACL{Scheme: "ip", ID: "10.0.0.1"})
	require.Equal(t, all, sure, "an address that is declared")
	sure, perhaps := with(hidden, all).Rights(hidden)
	require.Equal(t, []kind.Perm{0, all}, []kind.Perm{sure, perhaps}, "two hidden hashes may differ")
}

func TestOneListWithoutAnother(t *testing.T) {
	ann, bob := kind.ACL{Scheme: "digest", ID: "ann:1", Perms: kind.PermAll}, kind.ACL{Scheme: "digest", ID: "bob:1", Perms: kind.PermRead}
	hidden := kind.ACL{Scheme: "digest", ID: "ann:x", Perms: kind.PermAll}
	require.Equal(t, kind.List{bob}, kind.List{ann, bob}.Without(kind.List{ann}))
	require.Equal(t, kind.List{bob}, kind.List{hidden, bob}.Without(kind.List{ann}))
	less := ann
	less.Perms = kind.PermRead
	require.Equal(t, kind.List{ann}, kind.List{ann}.Without(kind.List{less}), "it gives more")
	require.True(t, kind.List{ann, bob}.Covers(kind.List{less}))
	require.False(t, kind.List{less}.Covers(kind.List{ann}))
	require.Equal(t, "digest:ann:cdrwa, digest:bob:r", kind.List{bob, ann}.String(), "no hash is shown")
}
