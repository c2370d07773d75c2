package apply

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// maxDescribed is how many contenders of one lock are asked who they are; a plan
// names a few and counts the rest.
const maxDescribed = 32

// use fills in the structural children and the contenders of a lock.
func (r *reader) use(ctx context.Context, n *plan.Node) error {
	k := n.Kind()
	lists := map[string][]string{} // children by queue directory, "" for the lock itself
	for _, name := range k.Children {
		part, names, err := r.part(ctx, n.Path, name)
		if err != nil {
			return err
		}
		n.Live.Parts = append(n.Live.Parts, part)
		lists[name] = names
	}
	if n.Live.Children > present(n.Live.Parts) {
		names, _, err := r.s.Children(ctx, n.Path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return readError(n.Path, err)
		}
		lists[""] = without(names, k.Children)
	}
	u := sortUsage(n, lists)
	if !u.Busy() {
		return nil
	}
	n.Live.Usage = u
	return r.describe(ctx, n, u)
}

func present(parts []plan.Part) (n int) {
	for _, p := range parts {
		if !p.Absent {
			n++
		}
	}
	return n
}

func without(names, structural []string) []string {
	var out []string
	for _, name := range names {
		own := false
		for _, s := range structural {
			own = own || s == name
		}
		if !own {
			out = append(out, name)
		}
	}
	return out
}

func (r *reader) part(ctx context.Context, path, name string) (plan.Part, []string, error) {
	path = kind.JoinPath(path, name)
	acl, stat, err := r.s.GetACL(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return plan.Part{Name: name, Absent: true}, nil, nil
	}
	if err != nil {
		return plan.Part{}, nil, readError(path, err)
	}
	p := plan.Part{
		Name: name, Czxid: stat.Czxid, Version: stat.Version, Aversion: stat.Aversion,
		Children: int(stat.NumChildren), ACL: fromZK(acl),
	}
	if p.Children == 0 {
		return p, nil, nil
	}
	names, _, err := r.s.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return plan.Part{}, nil, readError(path, err)
	}
	return p, names, nil
}

// sortUsage tells holders from waiters by the kind's own rule. Who stands in an
// antechamber, or behind in the deciding queue, waits.
func sortUsage(n *plan.Node, lists map[string][]string) *plan.Usage {
	u, k := &plan.Usage{}, n.Kind()
	for i, q := range k.Queues {
		queue, junk := kind.SortContenders(lists[q.Child])
		delete(lists, q.Child)
		for j, c := range queue {
			h := plan.Holder{Name: kind.JoinPath(q.Child, c.Name), Shared: c.Shared}
			if q.Child == "" {
				h.Name = c.Name
			}
			if i == 0 && k.Admit(n.Payload.Params, queue, j).Granted {
				u.Holders = append(u.Holders, h)
			} else {
				u.Waiters = append(u.Waiters, h)
			}
		}
		u.Junk = append(u.Junk, junk...)
	}
	for _, names := range lists { // places no queue of this kind uses
		u.Junk = append(u.Junk, names...)
	}
	slices.Sort(u.Junk)
	return u
}

func (r *reader) describe(ctx context.Context, n *plan.Node, u *plan.Usage) error {
	left := maxDescribed
	for _, group := range [][]plan.Holder{u.Holders, u.Waiters} {
		for i := range group {
			if left == 0 {
				return nil
			}
			left--
			data, stat, err := r.s.Get(ctx, kind.JoinPath(n.Path, group[i].Name))
			switch {
			case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
				continue // gone meanwhile, or not ours to read: its name is all there is
			case err != nil:
				return readError(n.Path, err)
			}
			group[i].ID = whoIs(data)
			group[i].Session, group[i].Token, group[i].SinceMs = stat.EphemeralOwner, uint64(stat.Czxid), stat.Ctime
		}
	}
	return nil
}

// maxID bounds what is shown of somebody's data.
const maxID = 120

// whoIs reads what a contender says about itself: the "id" our library writes, or
// a short text, which is what other clients write.
func whoIs(data []byte) string {
	var ours struct {
		ID string `json:"id"`
	}
	id := string(data)
	if json.Unmarshal(data, &ours) == nil {
		id = ours.ID
	}
	if len(id) > maxID || !utf8.ValidString(id) || strings.ContainsFunc(id, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return ""
	}
	return id
}
