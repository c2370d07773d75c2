package zktest

import (
	"strings"
	"unicode/utf8"
)

// validPath reports whether ZooKeeper accepts the path of a node (PathUtils): it
// starts with a slash, does not end with one, has no empty, "." or ".." part
// and none of the characters ZooKeeper refuses.
func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
		return false
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return strings.IndexFunc(path, refusedRune) < 0
}

// refusedRune covers the control characters, the UTF-16 surrogates and private
// use area, and the specials. Java sees a character beyond the basic plane as
// two surrogates, so such characters are refused too.
func refusedRune(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff ||
		r >= 0xfff0 || r == utf8.RuneError
}

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
		return "", codeBadArguments
	}
	parent, _ := splitPath(path)
	return parent, codeOK
}

// special reports whether a node can never be deleted.
func special(path string) bool {
	return path == "/" || path == procPath || path == quotaPath || path == configPath
}
