package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/family"
	"github.com/locktree/locktree/recipes/inspect/internal/moment"
	"github.com/locktree/locktree/recipes/inspect/internal/node"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

const (
	// checkedKeys is how many keys of a family Keys looks at.
	checkedKeys = 200
	// leftFor is how long the node of a key may be empty before Keys reports it. Servers look for empty containers once a minute, unless
	// znode.container.checkIntervalMs is set.
	leftFor = 10 * time.Minute
	// longListing is the longest listing, in bytes, that Java clients and zkCli read, unless jute.maxbuffer is set.
	longListing = 1 << 20
)

// Keys checks up to 200 keys of the family at path, spread over all of them. It checks that the nodes have the access list that the family
// declares, that no node has been empty for long, and that other programs can list the keys. It sends one or two requests for the family,
// one for each of its directories, and one or two for each key. An error means that there was no session, or that ctx ended. If the node
// has no readable declaration of a family, Keys returns no conditions.
func Keys(ctx context.Context, c session.Source, path string) ([]Condition, error) {
	s, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	look := &keysLook{s: s, empty: map[string]int64{}}
	if err = look.list(ctx, path); err == nil {
		n := min(checkedKeys, len(look.nodes))
		err = node.Together(node.MaxReads, n, func(i int) error { return look.read(ctx, look.nodes[i*len(look.nodes)/n]) })
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case session.OutcomeOf(err) == session.OutcomeDefinite:
		return nil, nil
	case err != nil || look.of == nil:
		return nil, err
	}
	return look.findings(time.Now()), nil
}

// keysLook is a look at some keys of a family.
type keysLook struct {
	s       *session.Session
	of      *family.Family
	want    kind.List // the access list that the nodes of keys should have; nil if this list is not known
	nodes   []string  // the nodes of all keys
	longest string    // the directory with the longest listing
	bytes   int       // the length of that listing

	mu     sync.Mutex
	looked int
	other  []string         // nodes with an access list other than want, or with a list that we may not read
	empty  map[string]int64 // nodes without a contender, each with the transaction that deleted its last contender
	seen   []moment.Moment
}

// list finds the nodes of all keys.
func (k *keysLook) list(ctx context.Context, path string) error {
	data, _, err := k.s.Get(ctx, path)
	if err != nil {
		return err
	}
	p, err := kind.Decode(data)
	if err != nil {
		return nil //nolint:nilerr // there is no declaration, or it is not readable
	}
	if k.of = family.New(path, p); k.of == nil {
		return nil
	}
	if k.want = p.ChildACL; k.want == nil {
		acl, _, err := k.s.GetACL(ctx, path)
		if err != nil {
			return err
		}
		if sure, _ := node.List(acl).Rights(); sure&(kind.PermCreate|kind.PermDelete) == kind.PermCreate|kind.PermDelete {
			k.want = kind.WorldAll()
		}
	}
	dirs := []string{path}
	if names := p.Children(); len(names) > 0 {
		dirs = nil
		for _, name := range names {
			dirs = append(dirs, kind.JoinPath(path, name))
		}
	}
	listed := make([][]string, len(dirs))
	err = node.Together(node.MaxReads, len(dirs), func(i int) (err error) {
		if listed[i], _, err = k.s.Children(ctx, dirs[i]); errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	for i, names := range listed {
		n := 0
		for _, name := range names {
			n += 4 + len(name)
			if node := kind.JoinPath(dirs[i], name); k.of.Has(node) {
				k.nodes = append(k.nodes, node)
			}
		}
		if n > k.bytes {
			k.longest, k.bytes = dirs[i], n
		}
	}
	slices.Sort(k.nodes)
	return err
}

// read looks at one key.
func (k *keysLook) read(ctx context.Context, path string) error {
	acl, stat, err := k.s.GetACL(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	closed := errors.Is(err, zk.ErrNoAuth)
	if err != nil && !closed {
		return err
	}
	inside := stat
	if q := k.of.Kind().Queues[0]; !closed && q.Child != "" && stat.NumChildren > 0 { // a semaphore's contenders are in sub-nodes of the path
		if inside, err = k.s.Exists(ctx, q.Dir(path)); err != nil && session.OutcomeOf(err) != session.OutcomeDefinite {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked++
	if closed || k.want != nil && !sameList(k.want, node.List(acl)) {
		k.other = append(k.other, path)
	}
	if closed {
		return nil
	}
	k.seen = append(k.seen, moment.Moment{Zxid: stat.Czxid, At: time.UnixMilli(stat.Ctime)}, moment.Moment{Zxid: stat.Mzxid, At: time.UnixMilli(stat.Mtime)})
	if inside == nil || inside.NumChildren == 0 {
		if k.empty[path] = stat.Pzxid; inside != nil {
			k.empty[path] = max(stat.Pzxid, inside.Pzxid)
		}
	}
	return nil
}

// sameList compares two access lists. One of the lists may hide the hashes of passwords.
func sameList(a, b kind.List) bool {
	in := func(x kind.ACL, l kind.List) bool {
		sure, perhaps := l.Of(x)
		return slices.ContainsFunc(slices.Concat(sure, perhaps), func(y kind.ACL) bool { return x.Perms == y.Perms })
	}
	all := func(l, other kind.List) bool {
		return !slices.ContainsFunc(l, func(x kind.ACL) bool { return !in(x, other) })
	}
	return all(a, b) && all(b, a)
}

// findings returns the conditions of the keys.
func (k *keysLook) findings(now time.Time) []Condition {
	name := " of " + k.of.Path
	keys := Condition{Name: "keys" + name, Why: "clients refuse a key whose node has another access list than its family declares (ErrKeyForeign), because another program might end its locks",
		What: fmt.Sprintf("%d of %d nodes of keys were looked at", k.looked, len(k.nodes))}
	switch foreign := k.of.Params.Foreign == "true"; {
	case k.want == nil:
		keys.What += "; the family declares no list for them, so it was not compared"
	case len(k.other) == 0:
		keys.What += ", and all have the access list of the family"
	default:
		keys.What += fmt.Sprintf(", and %d of these have another access list than the family: %s", len(k.other), k.firstKeys(k.other))
		if !foreign {
			keys.Verdict, keys.Next = Fails, "find out who made these nodes; delete them when no program uses them, or declare foreign = true"
		}
	}
	out := []Condition{keys}
	if long := k.overdueNodes(now); len(long) > 0 {
		out = append(out, Condition{Name: "empty keys" + name, Verdict: Unsure, What: fmt.Sprintf("%d of %d nodes have been empty for more than %v: %s", len(long), k.looked, leftFor, k.firstKeys(long)),
			Why:  "the last user deletes a key's node; after a crash the servers delete it, but only if it is a container that had a child",
			Next: "the next user of such a key deletes its node; when no program uses the family, you can delete such nodes below " + k.of.Path + " with zkCli.sh"})
	}
	if k.bytes > longListing {
		out = append(out, Condition{Name: "listing" + name, Verdict: Unsure, What: fmt.Sprintf("the names of the keys in %s are %d bytes", k.longest, k.bytes),
			Why:  "Java clients and zkCli read at most 1 MiB of names, unless jute.maxbuffer is set: they cannot list the keys, nor delete the node with what is in it",
			Next: "declare the family with fanout = 256, or with a larger fanout than it has, when no program uses it"})
	}
	return out
}

// overdueNodes returns the nodes of keys that should have been deleted.
func (k *keysLook) overdueNodes(now time.Time) (long []string) {
	seen := moment.Sort(k.seen)
	for node, zxid := range k.empty {
		if before := moment.After(seen, zxid); !before.IsZero() && now.Sub(before) > leftFor {
			long = append(long, node)
		}
	}
	return long
}

// firstKeys names the keys of the first three nodes.
func (k *keysLook) firstKeys(nodes []string) string {
	slices.Sort(nodes)
	var names []string
	for _, node := range nodes[:min(3, len(nodes))] {
		key, _ := k.of.KeyAt(node)
		names = append(names, `"`+kind.Visible(key)+`"`)
	}
	text := strings.Join(names, ", ")
	if more := len(nodes) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
