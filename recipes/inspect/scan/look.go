package scan

import (
	"context"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Look takes one look, as a Scanner would. It reads every queue, even those that dump does not list, because a contender may belong to no
// session.
func Look(ctx context.Context, c session.Source, opts Options) (*Snapshot, error) {
	s := New(c, opts)
	s.once = true
	snap, err := s.Scan(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range opts.Sessions {
		if id != 0 && snap.Sessions[id] == nil {
			snap.Sessions[id] = &words.Session{ID: id}
		}
	}
	shown := slices.Clone(opts.Sessions)
	for _, in := range snap.Locks {
		for c := range in.Contenders {
			shown = append(shown, c.Session)
		}
	}
	unseen := func(id int64) bool { return id != 0 && snap.Sessions[id].Address == "" }
	if len(snap.Unasked) > 0 || !slices.ContainsFunc(shown, unseen) {
		return snap, nil
	}
	// A session seems to be away: no server lists a connection of it. We ask the servers a second time, to find out whether it is away.
	live, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	again, err := s.words.Ask(ctx, live)
	if err != nil {
		return nil, err
	}
	for id, x := range snap.Sessions {
		if newer := again.Sessions[id]; newer != nil {
			*x = *newer
		}
	}
	return snap, nil
}

// Sight describes a contender by its node and by the servers' answers about its session. A nil Snapshot has no such answers.
//
// The leader knows for certain how long a client is silent, whichever server the client is connected to. Every client looks for another
// server when it has had no answer for two thirds of its session's timeout. So if a client is silent for longer, its process or its machine
// has stopped, or it reaches no server. The client's connection may still be open on a server. If no server lists a connection, that is an
// earlier and weaker sign: see words.Session.
func (snap *Snapshot) Sight(c inspect.Contender, at time.Time) kind.Sight {
	s := kind.NewSight(c, at)
	if snap == nil || c.Session == 0 || snap.Sessions[c.Session] == nil {
		return s
	}
	x := snap.Sessions[c.Session]
	s.ClientAddress, s.SessionExpires = x.Address, kind.Stamp{Time: x.Expires}
	listed := x.Address != ""
	if listed || x.Away {
		s.Connected = &listed
	}
	switch {
	case x.Timeout > 0 && x.Silent > x.Timeout*2/3:
		s.Connection, s.SilentMs = kind.Silent, x.Silent.Milliseconds()
	case listed:
		s.Connection = kind.Connected
	case x.Away:
		s.Connection = kind.CutOff
	case len(snap.Unasked) == 0:
		s.Connection = kind.Unseen
	}
	return s
}
