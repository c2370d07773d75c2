package read

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// A read of a family takes at most 200 requests besides those for its directories, however many keys are in use. It lists
// listedDirs directories. For each of lookedAt keys it reads the access list, up to three queues, the access lists of up to two
// parts, and the first contenders.
const (
	lookedAt   = 16
	listedDirs = 24
	described  = 4
)

// family fills in the directories of a family, and who uses its keys.
func (r *reader) family(ctx context.Context, n *plan.Node) error {
	in := familyOf(n)
	n.Live.Parts = make([]plan.Part, len(in.dirs))
	err := forEach(ctx, r.tally, r.s, in.dirs, func(dirs []string) (reads direct.Reads) {
		for _, dir := range dirs {
			reads.GetACL = append(reads.GetACL, kind.JoinPath(n.Path, dir))
		}
		return reads
	}, func(ctx context.Context, s *direct.Session, i int) (err error) {
		n.Live.Parts[i], err = r.part(ctx, s, n.Path, in.dirs[i])
		return err
	})
	if err != nil {
		return err
	}
	use := &kind.Usage{}
	if n.Live.Children > present(n.Live.Parts) {
		names, err := childrenOf(ctx, r.s, n.Path)
		if err != nil {
			return err
		}
		in.sort(n.Path, names)
	}
	listed := 0
	for _, part := range n.Live.Parts {
		switch {
		case part.Children == 0:
		case listed == listedDirs || len(in.keys) >= lookedAt:
			use.Keys.Nodes += part.Children
		default:
			names, err := childrenOf(ctx, r.s, kind.JoinPath(n.Path, part.Name))
			if err != nil {
				return err
			}
			in.sort(kind.JoinPath(n.Path, part.Name), names)
			listed++
		}
	}
	use.Junk = in.junk
	use.Keys.Nodes += len(in.keys)
	if slices.Sort(in.keys); in.isKey(r.used) { // the key that is known to be in use is looked at first
		in.keys = append([]string{r.used}, slices.DeleteFunc(in.keys, func(key string) bool { return key == r.used })...)
	}
	if err := r.keys(ctx, in, in.keys[:min(len(in.keys), lookedAt)], use); err != nil {
		return err
	}
	if slices.Sort(use.Junk); use.Keys.Nodes+len(use.Junk) > 0 {
		n.Live.Usage = use
	}
	return nil
}

// keys looks at some keys.
func (r *reader) keys(ctx context.Context, in *keyed, paths []string, use *kind.Usage) error {
	n, params := in.n, in.n.Kind().Key(in.params)
	var reads direct.Reads
	for _, path := range paths {
		reads.GetACL = append(reads.GetACL, in.nodes(path)...)
	}
	ahead := r.s.ReadAhead(ctx, reads)
	for _, path := range paths {
		acl, stat, err := ahead.GetACL(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			use.Keys.Nodes--
			continue
		case errors.Is(err, zk.ErrNoAuth):
			continue // not looked at
		case err != nil:
			return refusal.Read(path, err)
		}
		key := &plan.Node{Path: path, Payload: &kind.Payload{Params: params}, Live: liveOf(stat)}
		if err := r.contenders(ctx, ahead, key, described); errors.Is(err, zk.ErrNoAuth) {
			continue // a program has made it with a list of its own
		} else if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, n.Path+"/")
		used := key.Live.Usage.Busy()
		lists, data := []kind.List{r.share.list(wire.FromZK(acl))}, key.Live.DataLength > 0
		for _, part := range key.Live.Parts {
			if data = data || part.Data; !part.Absent && !slices.ContainsFunc(lists, part.ACL.Equal) {
				lists = append(lists, part.ACL)
			}
		}
		if !used && data { // a program keeps data there
			use.Keys.Nodes--
			use.Junk = append(use.Junk, name)
			continue
		}
		use.Keys.Looked++
		n.Live.KeyLists = add(n.Live.KeyLists, lists)
		if !used {
			continue
		}
		use.Keys.Used++
		for _, junk := range key.Live.Usage.Junk {
			use.Junk = append(use.Junk, name+"/"+junk)
		}
		use.Holders = append(use.Holders, withKey(kind.BaseName(path), key.Live.Usage.Holders)...)
		use.Waiters = append(use.Waiters, withKey(kind.BaseName(path), key.Live.Usage.Waiters)...)
	}
	return nil
}

// withKey sets the key of each contender.
func withKey(key string, all []kind.Party) []kind.Party {
	for i := range all {
		all[i].Key = key
	}
	return all
}

func add(all []plan.KeyLists, lists []kind.List) []plan.KeyLists {
	for i := range all {
		if slices.EqualFunc(all[i].Lists, lists, kind.List.Equal) {
			all[i].Keys++
			return all
		}
	}
	return append(all, plan.KeyLists{Lists: lists, Keys: 1})
}

// keyed is the contents of a family: key nodes by their paths, and other nodes by their paths in the family.
type keyed struct {
	n          *plan.Node
	params     *kind.KeyedParams
	dirs       []string // names of the directories between the family and its keys (parameter fanout)
	parts      []string // names of the parts that the lock of each key may have
	keys, junk []string
}

func familyOf(n *plan.Node) *keyed {
	params := n.Payload.Params.(*kind.KeyedParams)
	return &keyed{n: n, params: params, dirs: n.Payload.Children(), parts: n.Kind().Key(params).Kind().Children}
}

// isKey reports whether a path is where the node of a key is.
func (f *keyed) isKey(path string) bool {
	key, ok := kind.ParseKeyName(kind.BaseName(path))
	at, err := f.params.Path(f.n.Path, key)
	return ok && err == nil && at == path
}

// sort sorts the names of children of the family's node, or of one of its directories.
func (f *keyed) sort(dir string, names []string) {
	for _, name := range names {
		path := kind.JoinPath(dir, name)
		if f.isKey(path) {
			f.keys = append(f.keys, path)
		} else if dir != f.n.Path || !slices.Contains(f.dirs, name) {
			f.junk = append(f.junk, strings.TrimPrefix(path, f.n.Path+"/"))
		}
	}
}

// list lists the whole family.
func (f *keyed) list(ctx context.Context, s *direct.Session) error {
	dirs := []string{f.n.Path}
	for _, name := range f.dirs {
		dirs = append(dirs, kind.JoinPath(f.n.Path, name))
	}
	names, err := listAll(ctx, s, dirs)
	for i, dir := range dirs {
		f.sort(dir, names[i])
	}
	return err
}

// listAll lists several nodes. ReadAhead cannot send listings, so each costs a round trip.
func listAll(ctx context.Context, s *direct.Session, paths []string) ([][]string, error) {
	names := make([][]string, len(paths))
	return names, forEach(ctx, &Tally{}, s, paths, func([]string) direct.Reads { return direct.Reads{} }, func(ctx context.Context, s *direct.Session, i int) (err error) {
		names[i], err = childrenOf(ctx, s, paths[i])
		return err
	})
}

// usedError ends a look at the keys of a family: one of them is in use.
type usedError struct{ path string }

func (e *usedError) Error() string { return e.path + " is in use" }

// KeyInUse returns the path of something in a family that is in use, "" if there is nothing. A child that is no node of a key
// counts as used. For each unused key node, KeyInUse calls the function sweep with the operations that delete it, from several
// goroutines.
func KeyInUse(ctx context.Context, s *direct.Session, n *plan.Node, sweep func(ctx context.Context, ops []tx.Op) error) (string, error) {
	f := familyOf(n)
	if err := f.list(ctx, s); err != nil {
		return "", err
	}
	if len(f.junk) > 0 {
		return kind.JoinPath(n.Path, f.junk[0]), nil
	}
	err := forEach(ctx, &Tally{}, s, f.keys, func(keys []string) (reads direct.Reads) {
		for _, key := range keys {
			reads.Exists = append(reads.Exists, f.nodes(key)...)
		}
		return reads
	}, func(ctx context.Context, s *direct.Session, i int) error {
		ops, err := f.look(ctx, s, f.keys[i])
		if err != nil || len(ops) == 0 {
			return err
		}
		return sweep(ctx, ops)
	})
	if used := (*usedError)(nil); errors.As(err, &used) {
		return used.path, nil
	}
	return "", err
}

// leaveIt does nothing to the node of a key.
func leaveIt(context.Context, []tx.Op) error { return nil }

// nodes are those that the lock of a key may have, besides its contenders.
func (f *keyed) nodes(key string) []string {
	nodes := []string{key}
	for _, part := range f.parts {
		nodes = append(nodes, kind.JoinPath(key, part))
	}
	return nodes
}

// look returns the operations that delete the node of a key, none if it is gone. The error is a usedError if the key is in use.
//
// The operations do no harm. ZooKeeper deletes no node with children. If the key's node is gone when a client wants to queue
// there, the client begins again.
func (f *keyed) look(ctx context.Context, s *direct.Session, key string) (ops []tx.Op, err error) {
	contents, parts := 0, 0
	for _, path := range f.nodes(key) {
		stat, err := s.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return nil, &usedError{key}
		case err != nil:
			return nil, refusal.Read(path, err)
		case stat == nil:
			continue
		}
		if contents += int(stat.NumChildren) + int(stat.DataLength); path != key {
			parts++
		}
		ops = append([]tx.Op{{Kind: tx.OpDelete, Addr: f.n.Addr, Path: path, Version: stat.Version}}, ops...)
	}
	if contents > parts {
		return nil, &usedError{key}
	}
	return ops, nil
}

// Used returns the path of a lock that has to be idle and is in use, "" if there is none. For a family, the path is that of a node
// in use. The path of the last look is looked at first: while it is in use, a family is not listed again.
func Used(ctx context.Context, s *direct.Session, c *plan.Change, stats map[string]*zk.Stat, last string) (string, error) {
	switch in := hasChildren(c, stats); {
	case !in:
		return "", nil
	case c.Before.Kind().Key == nil:
		return c.Path, nil
	}
	if f := familyOf(c.Before); last != "" && f.isKey(last) {
		var used *usedError
		if _, err := f.look(ctx, s, last); errors.As(err, &used) {
			return last, nil
		} else if err != nil {
			return "", err
		}
	}
	return KeyInUse(ctx, s, c.Before, leaveIt)
}

// familyContents lists everything in a family except its directories. Children come before their parent.
func familyContents(ctx context.Context, s *direct.Session, n *plan.Node) ([]string, error) {
	f := familyOf(n)
	if err := f.list(ctx, s); err != nil {
		return nil, err
	}
	all := f.keys
	for _, path := range f.junk {
		all = append(all, kind.JoinPath(n.Path, path))
	}
	for level := all; len(level) > 0; {
		names, err := listAll(ctx, s, level)
		if err != nil {
			return nil, err
		}
		first := len(all)
		for i, path := range level {
			for _, name := range names[i] {
				all = append(all, kind.JoinPath(path, name))
			}
		}
		level = all[first:]
	}
	slices.Reverse(all)
	return all, nil
}

// KeySteps returns the access lists to set on the nodes of keys that still have a former list. us are the identities of the
// connection.
//
// A client creates a key node only if the family's node has the version that the client has read. An apply calls KeySteps after
// the last transaction, which raised that version. So no key node with a former list appears after KeySteps has listed the nodes.
// KeySteps sees all earlier ones, because a server that has answered the transaction, or a later request, has applied all earlier
// writes.
func KeySteps(ctx context.Context, s *direct.Session, p *plan.Plan, us []kind.ACL) (steps []plan.ACLStep, err error) {
	for c := range p.Each() {
		if len(c.FormerLists) == 0 {
			continue
		}
		f := familyOf(c.After)
		if err := f.list(ctx, s); err != nil {
			return nil, err
		}
		var nodes []string
		for _, key := range f.keys {
			nodes = append(nodes, f.nodes(key)...)
		}
		ours := !slices.ContainsFunc(c.FormerLists, func(l kind.List) bool {
			sure, _ := l.Rights(us...)
			return sure&(kind.PermRead|kind.PermAdmin) == 0
		})
		found := make([]*plan.ACLStep, len(nodes))
		err := forEach(ctx, &Tally{}, s, nodes, func(nodes []string) direct.Reads { return direct.Reads{GetACL: nodes} },
			func(ctx context.Context, s *direct.Session, i int) error {
				acl, stat, err := s.GetACL(ctx, nodes[i])
				switch list := wire.FromZK(acl); {
				case errors.Is(err, zk.ErrNoNode):
				case errors.Is(err, zk.ErrNoAuth) && ours: // we may read under every former list, so this node has another list
				case err != nil:
					return refusal.Read(nodes[i], err)
				case slices.ContainsFunc(c.FormerLists, list.Equal): // other lists are not ours to set
					found[i] = &plan.ACLStep{Addr: c.Addr, Path: nodes[i], Before: list, ACL: c.After.Payload.ChildACL, Aversion: stat.Aversion, OfKey: true}
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
		for _, step := range found {
			if step != nil {
				steps = append(steps, *step)
			}
		}
	}
	return steps, nil
}
