package kind

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// maxName bounds a node name. ZooKeeper itself has no bound below its packet
// size, but the names of all ephemerals of a session go into one transaction
// when it closes (ZOOKEEPER-4306), and a contender's path starts with the lock's.
const maxName = 255

// ValidateName returns why s cannot be the name of a znode, or nil. It accepts a
// subset of the names that ZooKeeper's PathUtils.validatePath accepts.
func ValidateName(s string) error {
	switch {
	case s == "":
		return errors.New("a node name must not be empty")
	case s == "." || s == "..":
		return fmt.Errorf("%q is not allowed as a node name: ZooKeeper has no relative paths", s)
	case len(s) > maxName:
		return fmt.Errorf("the node name is %d bytes long: at most %d are allowed", len(s), maxName)
	case !utf8.ValidString(s):
		return fmt.Errorf("the node name %q is not valid UTF-8", s)
	}
	for _, r := range s {
		if why := illegalRune(r); why != "" {
			return fmt.Errorf("the node name %q contains %s", s, why)
		}
	}
	return nil
}

// illegalRune says why a name may not contain r, or returns "".
func illegalRune(r rune) string {
	switch {
	case r == '/':
		return "a slash: nest namespaces instead"
	case r == 0:
		return "a NUL character, which ZooKeeper refuses"
	case !jute.BadRune(r):
		return ""
	case unicode.IsControl(r):
		return fmt.Sprintf("the control character %U, which ZooKeeper refuses", r)
	default:
		return fmt.Sprintf("the character %U, which ZooKeeper refuses", r)
	}
}

// ValidatePath returns why s cannot be the absolute path of one of our nodes, or nil.
// "/" is valid; "/zookeeper" and everything below belong to ZooKeeper.
func ValidatePath(s string) error {
	if s == "/" {
		return nil
	}
	if !strings.HasPrefix(s, "/") {
		return fmt.Errorf("the path %q must start with a slash", s)
	}
	if strings.HasSuffix(s, "/") {
		return fmt.Errorf("the path %q must not end with a slash", s)
	}
	names := strings.Split(s[1:], "/")
	for _, name := range names {
		if err := ValidateName(name); err != nil {
			return fmt.Errorf("the path %q is not legal: %w", s, err)
		}
	}
	if names[0] == "zookeeper" {
		return fmt.Errorf("the path %q is not allowed: /zookeeper belongs to ZooKeeper itself", s)
	}
	return nil
}

// JoinPath appends a name to an absolute path.
func JoinPath(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// ParentPath is the path without its last name; the parent of "/" is "/".
func ParentPath(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// Below reports whether path is root or below it. The slash matters: /locksmith is not below /locks.
func Below(path, root string) bool {
	return root == "/" || path == root || strings.HasPrefix(path, root+"/")
}

// BaseName is a path's last name.
func BaseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
