package zktest

import (
	"strings"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// validPath reports whether ZooKeeper accepts the path of a node.
func validPath(path string) bool { return jute.BadPath(path, false) == "" }

// splitPath returns the parent's path and the node's own name. The parent of a
// child of the root is "/".
func splitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

func joinPath(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// parentForChange is the parent that a create or delete needs. Before it the server
// checks only for a slash and a NUL: for a path that is wrong in another way the
// answer is NoNode if its parent does not exist.
func parentForChange(path string) (string, Code) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", jute.CodeBadArguments
	}
	parent, _ := splitPath(path)
	return parent, jute.CodeOK
}

// special reports whether a node can never be deleted.
func special(path string) bool {
	return path == "/" || path == procPath || path == quotaPath || path == configPath
}
