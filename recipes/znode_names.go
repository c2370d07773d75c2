package recipes

import "github.com/locktree/locktree/recipes/internal/znode"

// What package znode defines.
var (
	ErrKeyForeign     = znode.ErrKeyForeign
	ErrLost           = znode.ErrLost
	ErrReleasePending = znode.ErrReleasePending
	ErrRevoked        = znode.ErrRevoked
)
