package words

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/inspect/internal/evidence"
	"github.com/locktree/locktree/recipes/kind"
)

// dump is the answer to the four-letter word dump.
type dump struct {
	owners   map[string]map[string]int64 // the sessions of nodes that look like contenders, by directory and name
	sessions map[int64]*Session
	expires  map[int64]time.Time // when sessions expire, by the server's clock
	sets     bool                // the answer says when sessions expire
	ended    bool                // the answer is complete
}

var (
	errForbidden  = errors.New("the word is not allowed: add it to 4lw.commands.whitelist")
	errNotServing = errors.New("it is not serving requests: it may have no quorum")
)

// parseDump reads the answer line by line. No path contains a line break, because the servers refuse control characters.
func parseDump(r io.Reader) (*dump, error) {
	d := &dump{owners: map[string]map[string]int64{}, sessions: map[int64]*Session{}, expires: map[int64]time.Time{}}
	section, at, owner := "", time.Time{}, int64(0)
	err := eachLine(r, func(line string) {
		switch line {
		case "SessionTracker dump:", "ephemeral nodes dump:", "Connections dump:":
			section, d.ended = line, line == "Connections dump:"
			return
		}
		switch {
		case section == "SessionTracker dump:":
			d.parseSession(line, &at)
		case section == "ephemeral nodes dump:" && strings.HasPrefix(line, "\t"):
			d.owns(owner, line[1:])
		case section == "ephemeral nodes dump:":
			owner, _ = sessionID(strings.TrimSuffix(line, ":"))
		case section == "Connections dump:":
			if ip, id, ok := strings.Cut(strings.TrimPrefix(line, "\tip: "), " sessionId: "); ok {
				if n, ok := sessionID(id); ok && n != 0 {
					d.session(n).Address = address(ip)
				}
			}
		}
	})
	if err == nil && !d.ended {
		err = io.ErrUnexpectedEOF
	}
	return d, err
}

// parseSession reads a line of the part about sessions. The leader and a standalone server list the sessions by the time when they expire.
// Other servers list the sessions' timeouts.
func (d *dump) parseSession(line string, at *time.Time) {
	if _, when, ok := strings.Cut(strings.TrimSuffix(line, ":"), " expire at "); ok {
		*at, _ = time.Parse(time.UnixDate, when) // calibrate corrects the time if this machine does not know its zone
		d.sets = true
		return
	}
	id, timeout, _ := strings.Cut(strings.TrimPrefix(line, "\t"), "\t")
	n, ok := sessionID(id)
	if !ok {
		return
	}
	x := d.session(n)
	if ms, err := strconv.Atoi(strings.TrimSuffix(timeout, "ms")); err == nil {
		x.Timeout = time.Duration(ms) * time.Millisecond
	}
	if !at.IsZero() {
		d.expires[n] = *at
	}
}

func (d *dump) owns(owner int64, path string) {
	x := d.session(owner)
	x.Nodes++
	x.Bytes += len(path)
	dir, name := kind.ParentPath(path), kind.BaseName(path)
	if _, ok := kind.ParseContender(name); !ok && !evidence.IsKazooPermit(name) || evidence.Reserved(path) {
		return
	}
	if d.owners[dir] == nil {
		d.owners[dir] = map[string]int64{}
	}
	d.owners[dir][name] = owner
}

func (d *dump) session(id int64) *Session {
	x := d.sessions[id]
	if x == nil {
		x = &Session{ID: id}
		d.sessions[id] = x
	}
	return x
}

// sessionID reads a session id, such as 0x100016ac0f90000, as an unsigned number.
func sessionID(text string) (int64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	return int64(n), err == nil && strings.HasPrefix(text, "0x") //nolint:gosec // the same bits
}

// address reads an address as Java writes it: /10.0.0.7:40822, perhaps with a name before it.
func address(java string) string { return kind.Visible(java[strings.LastIndexByte(java, '/')+1:]) }

var consLine = regexp.MustCompile(`^ (\S+)\[\d+\]\(.*\bsid=(0x[0-9a-f]+),.*\bto=(\d+)`)

// parseCons notes the sessions of a server's connections, and counts the connections.
func parseCons(r io.Reader, note func(id int64, addr string, timeout time.Duration)) (connections int, err error) {
	ended := false
	err = eachLine(r, func(line string) {
		ended = line == ""
		if !strings.HasPrefix(line, " ") {
			return
		}
		connections++
		if m := consLine.FindStringSubmatch(line); m != nil {
			id, _ := sessionID(m[2])
			ms, _ := strconv.Atoi(m[3]) // digits
			note(id, address(m[1]), time.Duration(ms)*time.Millisecond)
		}
	})
	if err == nil && !ended {
		err = io.ErrUnexpectedEOF
	}
	return connections, err
}

func eachLine(r io.Reader, f func(string)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasSuffix(line, " is not executed because it is not in the whitelist."):
			return errForbidden
		case line == "This ZooKeeper instance is not currently serving requests":
			return errNotServing
		default:
			f(line)
		}
	}
	return lines.Err()
}

var versionText = regexp.MustCompile(`version: (\d+)\.(\d+)\.(\d+)`)

// ParseVersion returns the version in the answer to srvr; nil if the answer says none.
func ParseVersion(srvr string) (v []int) {
	m := versionText.FindStringSubmatch(srvr)
	if m == nil {
		return nil
	}
	for _, digits := range m[1:] {
		n, _ := strconv.Atoi(digits) // only digits matched; a number that overflows is a later version
		v = append(v, n)
	}
	return v
}

// describe reads the answer to srvr.
func (s *Server) describe(r io.Reader) (connections int, err error) {
	err = eachLine(r, func(line string) {
		switch key, value, _ := strings.Cut(line, ": "); key {
		case "Zookeeper version":
			if v := ParseVersion("version: " + value); v != nil {
				s.Version = fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
			}
		case "Mode":
			s.Mode = kind.Visible(value)
		case "Zxid":
			s.Zxid, _ = sessionID(value)
		case "Connections":
			connections, _ = strconv.Atoi(value) // 0 if the value is no number
		}
	})
	if err == nil && s.Mode == "" {
		err = io.ErrUnexpectedEOF
	}
	return connections, err
}
