// Package evidence recognises a node by its contents: by its declaration, or by the traces of an undeclared lock.
//
//	found, err := evidence.Of(path, payload, data, children, listChild)
//
// The package sends no request: the caller lists the children, and a sub-node when the evidence asks for it. If a [Found] has no
// kind, nothing in the node shows what it is. A [*Misfit] is a node that shows parts of two types of locks, or is part of a lock
// itself.
package evidence

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Found is the result of the function Of.
type Found struct {
	Kind   *kind.Kind  // nil: nothing in the node shows its kind
	Params kind.Params // as declared; nil for a kind that was guessed
	// Kazoo is the number in the data, if the node may be a semaphore of kazoo's; otherwise 0. A node without children may be a counter
	// instead.
	Kazoo int
}

// Misfit is why no kind fits an undeclared node.
type Misfit struct {
	text string
	Part bool // the node is a sub-node of a lock
}

func (m *Misfit) Error() string { return m.text }

// Of finds the kind of the node at path: as declared, or guessed from its data and children. The function inside lists a sub-node.
func Of(path string, declared *kind.Payload, data []byte, children []string, inside func(name string) ([]string, error)) (Found, error) {
	if declared != nil {
		return Found{Kind: declared.Params.Kind(), Params: declared.Params}, nil
	}
	k, err := guess(path, children, inside)
	if err != nil || k != nil {
		return Found{Kind: k}, err
	}
	found := Found{}
	if n, err := strconv.Atoi(string(data)); err == nil && n > 0 && len(data) <= MaxDigits &&
		!slices.ContainsFunc(children, func(name string) bool { return !IsKazooPermit(name) }) {
		found.Kazoo = n
	}
	if found.Kazoo > 0 && len(children) > 0 {
		found.Kind = kind.Semaphore
	}
	return found, nil
}

// guess guesses the kind of an undeclared lock from its contenders and sub-nodes; nil when nothing gives a hint. Each contender and each
// sub-node narrows the kinds that the lock may have. In kazoo, a contender of a mutex, a writer and a candidate have the same form of name,
// so only a reader reveals more. If no kind fits all of them, the error names two kinds and a clue to each.
func guess(path string, children []string, inside func(name string) ([]string, error)) (*kind.Kind, error) {
	var fits []*kind.Kind
	because := ""
	narrow := func(to []*kind.Kind, clue string) error {
		left := slices.Clone(to)
		if fits != nil {
			left = slices.DeleteFunc(left, func(k *kind.Kind) bool { return !slices.Contains(fits, k) })
		}
		switch {
		case len(left) == 0:
			return &Misfit{text: fmt.Sprintf("it holds parts of two types of locks: %s (%s) and %s (%s)", fits[0].Name, because, to[0].Name, clue)}
		case len(left) != len(fits):
			fits, because = left, clue
		}
		return nil
	}
	line, _ := kind.SortContenders(children)
	for _, c := range line {
		own := kindsWith("", c)
		if of := provenKind(kind.BaseName(path), c); of != nil {
			return nil, &Misfit{fmt.Sprintf("it is the part of a %s: look at %s", of.Name, kind.Visible(kind.ParentPath(path))), true}
		}
		if len(own) == 0 {
			continue
		}
		if err := narrow(own, kind.Visible(c.Name)); err != nil {
			return nil, err
		}
	}
	for _, k := range kind.All() {
		clue, err := subNodeClue(k, children, inside)
		if err == nil && clue != "" {
			err = narrow([]*kind.Kind{k}, clue)
		}
		if err != nil {
			return nil, err
		}
	}
	if fits == nil {
		return nil, nil
	}
	return fits[0], nil
}

// subNodeClue names a sub-node that shows that a lock is of kind k; "" if none does. It suffices that all sub-nodes of the kind exist. One
// sub-node also suffices if it has contenders that no kind has in the lock node itself. The other sub-nodes may be missing, because servers
// may delete empty ones.
func subNodeClue(k *kind.Kind, children []string, inside func(name string) ([]string, error)) (clue string, err error) {
	missing := func(name string) bool { return !slices.Contains(children, name) }
	if len(k.Children) > 0 && !slices.ContainsFunc(k.Children, missing) {
		return k.Children[0], nil
	}
	for _, q := range k.Queues {
		own := func(marker string) bool { return provenKind(q.Child, kind.Contender{Marker: marker}) != nil }
		if missing(q.Child) || !slices.ContainsFunc(slices.Collect(maps.Values(q.Exclusive)), own) {
			continue
		}
		names, err := inside(q.Child)
		if err != nil {
			return "", err
		}
		if Proves(q.Child, names) {
			return q.Child, nil
		}
	}
	return "", nil
}

// kindsWith returns the kinds that have contenders like c in their sub-node child, or in the lock node itself if child is "".
func kindsWith(child string, c kind.Contender) []*kind.Kind {
	if child == "" && c.Marker == "x-" { // ZooKeeper's own WriteLock, which no kind writes
		return []*kind.Kind{kind.Mutex}
	}
	has := func(q kind.Queue) bool {
		table := q.Exclusive
		if c.Shared {
			table = q.Shared
		}
		return q.Child == child && slices.Contains(slices.Collect(maps.Values(table)), c.Marker)
	}
	return slices.DeleteFunc(kind.All(), func(k *kind.Kind) bool { return !slices.ContainsFunc(k.Queues, has) })
}

// provenKind returns a kind that has contenders like c in its sub-node child. It returns nil if there is none, or if any kind has them in
// the lock node itself.
func provenKind(child string, c kind.Contender) *kind.Kind {
	if of := kindsWith(child, c); len(of) > 0 && len(kindsWith("", c)) == 0 {
		return of[0]
	}
	return nil
}

// Proves reports whether a node is part of a lock: whether one of its children, by their names, is a contender that only a lock has in
// a node named child.
func Proves(child string, names []string) bool {
	line, _ := kind.SortContenders(names)
	return slices.ContainsFunc(line, func(c kind.Contender) bool { return provenKind(child, c) != nil })
}

// Reserved reports whether path belongs to the servers or to the provisioner.
func Reserved(path string) bool {
	return path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") || strings.Contains(path+"/", "/.locktree/")
}

// A kazoo Semaphore keeps its number of permits as text in its own node. Its permits are children named by a bare UUID, and its
// queue is in a lock beside it (kazoo/recipe/lock.py).
var kazooPermit = regexp.MustCompile(`^[0-9a-f]{32}$`)

const (
	KazooQueue = "-__lock__" // the path of a kazoo semaphore plus this suffix is the path of its queue
	MaxDigits  = 10          // the most digits that a number of permits has
)

// IsKazooPermit reports whether a child has the name of a permit.
func IsKazooPermit(name string) bool { return kazooPermit.MatchString(name) }
