package store

import (
	"strings"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// ValidPath reports whether ZooKeeper accepts the path of a node (PathUtils.validatePath).
func ValidPath(path string) bool {
	switch {
	case path == "/":
		return true
	case path == "" || path[0] != '/' || path[len(path)-1] == '/' || !utf8.ValidString(path):
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, badRune)
}

// badRune reports whether r is forbidden in paths: control characters, surrogates, the private use area and the specials are. ZooKeeper
// compares UTF-16 units, so it also refuses everything beyond U+FFFF.
func badRune(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// SplitPath returns the parent's path and the node's own name. The parent of a child of the root is "/".
func SplitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// JoinPath is the path of a child.
func JoinPath(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// parentForChange is the parent that a create or delete needs. The server first requires a slash and no NUL, then looks for the
// parent, and only then validates the path. So if the parent does not exist, the answer to any other invalid path is NoNode.
func parentForChange(path string) (string, wire.Code) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", wire.CodeBadArguments
	}
	parent, _ := SplitPath(path)
	return parent, wire.CodeOK
}

// isPermanent reports whether a node can never be deleted.
func isPermanent(path string) bool {
	return path == "/" || path == procPath || path == quotaPath || path == configPath
}
