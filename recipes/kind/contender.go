package kind

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes/internal/paths"
)

// Contender is the name of a child, parsed: one client's place in a queue.
type Contender struct {
	// Name is the name in ZooKeeper.
	Name string
	// GUID is the id before the marker, without "_c_" and the closing dash; "" if the client wrote none. By it the client recognises its
	// own node after a lost reply.
	GUID string
	// Shared is true for a reader.
	Shared bool
	// Seq is the sequence number that ZooKeeper appended. It wraps at 2^31: only [SortContenders] compares it correctly.
	Seq int32
	// Marker is the part of the name that makes it a contender. It hints at the client that wrote the name.
	Marker string
}

// marker is a string that known clients put before the sequence number. No marker contains another one, and only a number follows
// each, so their order does not matter. (go-zookeeper and Curator's LeaderSelector write the marker of a mutex.)
type marker struct {
	text   string
	shared bool
}

// markers are the markers of all known kinds; see register.
var markers []marker

// ParseContender parses the child name of any known client. If it returns false the child is not a contender: callers must
// neither wait for the child nor count it.
func ParseContender(name string) (Contender, bool) {
	for _, m := range markers {
		i := strings.LastIndex(name, m.text) // Curator also takes the last occurrence
		if i < 0 {
			continue
		}
		seq, ok := parseSeq(name[i+len(m.text):])
		if !ok { // not a marker here, because more than a number follows
			continue
		}
		c := Contender{Name: name, Shared: m.shared, Seq: seq, Marker: m.text}
		if guid, ok := strings.CutPrefix(name[:i], "_c_"); ok { // Curator's protection
			c.GUID = strings.TrimSuffix(guid, "-")
		}
		return c, true
	}
	return parseWriteLock(name)
}

// parseWriteLock parses a name of ZooKeeper's own WriteLock: x-<session>-<sequence>,
// where the session is a decimal (Java, possibly negative) or hexadecimal (C) number.
func parseWriteLock(name string) (Contender, bool) {
	rest, ok := strings.CutPrefix(name, "x-")
	if !ok || len(rest) < 2 {
		return Contender{}, false
	}
	// A leading dash belongs to a negative session number.
	i := strings.Index(rest[1:], "-") + 1
	if i < 1 {
		return Contender{}, false
	}
	seq, ok := parseSeq(rest[i+1:])
	if !ok || strings.Trim(rest[:i], "-0123456789abcdef") != "" {
		return Contender{}, false
	}
	return Contender{Name: name, Seq: seq, Marker: "x-"}, true
}

// parseSeq accepts exactly what ZooKeeper's "%010d" of an int32 produces: ten
// digits, or a minus sign and nine or ten digits once the counter has wrapped.
func parseSeq(s string) (int32, bool) {
	digits := strings.TrimPrefix(s, "-")
	if len(digits) != 10 && !(s != digits && len(digits) == 9) {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 32) // ten digits can be too many for 31 bits
	return int32(n), err == nil
}

// SortContenders splits child names into the queue, in order, and the rest. Never change the order: two clients that sort
// differently would both hold the lock. Clients of older versions, of Curator and of kazoo sort the same queue.
//
// Numbers wrap at 2^31, so the queue is an arc of a circle; it begins after the widest gap. As long as the queue spans fewer than
// 2^31 numbers, this is the order of serial arithmetic (RFC 1982), which compares two numbers at a time. Beyond that span serial
// arithmetic is no order at all. For example, a child with a number half way round the circle would sort after the waiter, but
// before the holder. Depending on the order in which a server lists the children, sorting could then put the waiter before the
// holder. Here such a child can come first or last, but never changes the order of numbers that are close to each other.
//
// Equal sequence numbers exist: Curator's downgrade gives a reader the number of the writer. The reader then comes after that
// writer. Names break the remaining ties.
func SortContenders(children []string) (queue []Contender, junk []string) {
	for _, name := range children {
		if c, ok := ParseContender(name); ok {
			queue = append(queue, c)
		} else {
			junk = append(junk, name)
		}
	}
	// Sort by plain integers first: the widest gap then shows where the circle begins. No two children of a node compare equal,
	// because their names differ, so every client gets the same order.
	slices.SortFunc(queue, func(a, b Contender) int {
		if a.Seq == b.Seq && a.Shared != b.Shared {
			if b.Shared {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(junk)
	first, widest := 0, uint32(0)
	for i, c := range queue {
		before := queue[(i+len(queue)-1)%len(queue)]
		if gap := uint32(c.Seq) - uint32(before.Seq); gap > widest { // also right across the wrap
			first, widest = i, gap
		}
	}
	if first == 0 {
		return queue, junk
	}
	return append(slices.Clone(queue[first:]), queue[:first]...), junk
}

// maxName bounds a node name. ZooKeeper itself has no bound below its packet size. But when a session closes, the paths of all
// its ephemerals go into one transaction (ZOOKEEPER-4306), and a contender's path starts with the lock's path.
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
	case !paths.BadRune(r):
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
	switch {
	case s == "/":
		return nil
	case !strings.HasPrefix(s, "/"):
		return fmt.Errorf("the path %q must start with a slash", s)
	case strings.HasSuffix(s, "/"):
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
