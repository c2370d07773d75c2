package inspect

import (
	"context"

	"github.com/locktree/locktree/recipes/internal/session"
)

// Look looks once at what a Scanner would look at. It reads every queue, even where dump lists nobody: dump does not list
// contenders that belong to no session.
func Look(ctx context.Context, c provider, opts ScanOptions) (*Snapshot, error) {
	s := NewScanner(c, opts)
	s.once = true
	snap, err := s.Scan(ctx)
	if err != nil || !snap.missesOne() {
		return snap, err
	}
	live, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	again, err := s.words.hear(ctx, live)
	if err != nil {
		return nil, err
	}
	for id, x := range snap.Sessions {
		if newer := again.sessions[id]; newer != nil {
			*x = *newer
		}
	}
	return snap, nil
}

// missesOne reports whether a holder or a waiter seems to be away. Asking the words a second time settles that.
func (snap *Snapshot) missesOne() bool {
	if len(snap.Unasked) > 0 {
		return false
	}
	for _, in := range snap.Locks {
		for c := range in.contenders {
			if s := snap.Sessions[c.Session]; c.Session != 0 && s.Address == "" {
				return true
			}
		}
	}
	return false
}
