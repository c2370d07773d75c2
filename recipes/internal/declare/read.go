package declare

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// readDeclaration reads and watches the node, and reads the access list for its contenders.
func (e *Reader) readDeclaration(ctx context.Context, path string) (*Declaration, error) {
	// Both at once: the access list costs no round trip of its own, and may turn out not to be needed.
	var inherited []zk.ACL
	var notInherited error
	aside, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { inherited, notInherited = inheritedACL(aside, e.s, path, e.Authenticated()) })
	data, stat, w, err := znode.GetCalledPersistent(ctx, e.s, path, nil)
	if err != nil {
		cancel() // it would ask for the list as long as the session lives
	}
	reading.Wait()
	cancel()
	if err != nil {
		return nil, err
	}
	d := &Declaration{Path: path, revision: revision{stat.Version, stat.Mzxid}, w: w, Dropped: make(chan struct{}),
		brought: new(atomic.Pointer[Declaration]), familiar: familiar{keyless: new(atomic.Bool)}}
	d.payload, d.why = kind.Decode(data)
	if d.why != nil {
		d.payload = nil // it may be half of one
	} else {
		d.payload.Read(stat.Mtime)
		d.Since = time.UnixMilli(d.payload.Since)
	}
	if d.payload == nil || d.payload.ChildACL == nil {
		// Only now does it matter whether that worked.
		if d.shared = inherited; notInherited != nil {
			w.Remove()
			return nil, notInherited
		}
	}
	if d.payload == nil {
		return d, nil
	}
	d.set(d.payload.Params, d.payload.ChildACL)
	return d, nil
}

// inheritedACL is the access list of contenders whose lock does not declare one. ZooKeeper hands none down. Contenders open to everybody,
// in a lock that is not, would let everybody end a grant, or pretend one. It is read with the declaration; a change of the node's list
// alone is not noticed before the next read.
func inheritedACL(ctx context.Context, s *session.Session, path string, authenticated bool) (acl []zk.ACL, err error) {
	err = retry.Do(ctx, s, znode.Unanswered, func() error {
		acl, _, err = s.GetACL(ctx, path)
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return nil, err
	}
	return ContendersACL(acl, authenticated), nil
}

// ContendersACL turns the ACL of a lock node, nil if we may not read it, into that of its contenders. Identities that may contend
// (CREATE) read and write them; those that may look, read them. A lock that everybody may use has contenders open to everybody, as
// Curator's and kazoo's.
func ContendersACL(node []zk.ACL, authenticated bool) []zk.ACL {
	// CREATE and DELETE make and unmake contenders, READ sees them.
	const use, look = zk.PermCreate | zk.PermDelete, zk.PermRead
	var acl []zk.ACL
	if authenticated {
		acl = zk.AuthACL(zk.PermAll) // ourselves, whichever of our identities the lock admits
	}
	for _, e := range node {
		var perms int32
		switch {
		case e.Scheme == "world" && e.Perms&use == use:
			return zk.WorldACL(zk.PermAll)
		case e.Scheme == "digest" && strings.HasSuffix(e.ID, ":x"):
			// A server shows a digest to administrators only; with "x" for it the entry would admit nobody.
			continue
		case e.Perms&zk.PermCreate != 0:
			perms = zk.PermRead | zk.PermWrite
		default:
			perms = e.Perms & look
		}
		if perms |= e.Perms & zk.PermAdmin; perms != 0 {
			acl = append(acl, zk.ACL{Perms: perms, Scheme: e.Scheme, ID: e.ID})
		}
	}
	if len(acl) == 0 {
		// Let in by something we know nothing of (our address, say): reading is what heartbeats and waiters need.
		return zk.WorldACL(look)
	}
	return acl
}

// keyNodeACL turns the ACL of contenders into that of the nodes of keys: identities that may contend create and delete contenders there.
func keyNodeACL(contenders []zk.ACL) []zk.ACL {
	node := slices.Clone(contenders)
	for i, e := range node {
		if e.Perms&zk.PermWrite != 0 {
			node[i].Perms |= zk.PermCreate | zk.PermDelete
		}
	}
	return node
}
