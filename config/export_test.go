package config

import (
	"io/fs"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/recipes/kind"
)

// LoadFS is [Load] on any file system, which must hold every module; dir is what
// diagnostics call it.
func LoadFS(fsys fs.FS, dir string, opts Options) (*Config, hcl.Diagnostics) {
	return loadTree(fsys, dir, opts, func(sub string) (fs.FS, error) {
		if !fs.ValidPath(sub) {
			return nil, fs.ErrNotExist
		}
		return fs.Sub(fsys, sub)
	})
}

// Repeats is how many errors of one kind are shown for one place.
const Repeats = repeats

// DigestID is what digest() makes.
var DigestID = digestID

// Value is what [Console.Eval] writes.
func (c *Console) Value(src string) (cty.Value, bool) { return c.value(src) }

// Wrong reports whether the configuration has errors.
func (c *Console) Wrong() bool { return c.diags.HasErrors() }

// RolePerms are a role's permissions on a namespace and on a lock node.
func RolePerms(word string) (namespace, lock kind.Perm) {
	p, _ := role(word).perms()
	return p.namespace, p.lock
}
