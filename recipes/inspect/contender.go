package inspect

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes/kind"
)

// Contender is one place in a queue, whoever wrote it. What a foreign client does not tell is zero.
type Contender struct {
	Path    string
	Name    string // as found, like Path and Data; what else is text has control characters escaped
	GUID    string // what its client knows it by
	Seq     int32
	Shared  bool      // a reader
	Writer  string    // which client's names it uses: "curator", "kazoo", "go-zookeeper", "writelock"
	ID      string    // who it says it is
	Host    string    // where it runs
	PID     int       // its process
	Since   time.Time // when it queued
	Held    time.Time // when it was granted, as ours say that had to wait; else zero
	Session int64     // the session that owns the node
	Token   uint64    // czxid: the fencing token it has, or will have
	Revoked bool      // it has been asked to step back
	Permits int       // of a semaphore: how many it holds or waits for; 0 where that is not known or another node of it says so
	Data    []byte    // as found
}

// NewContender is what a name alone tells.
func NewContender(dir string, c kind.Contender) Contender {
	return Contender{Path: kind.JoinPath(dir, c.Name), Name: c.Name, GUID: c.GUID, Seq: c.Seq, Shared: c.Shared, Writer: writerOf(c)}
}

// writerOf names the client by the marker, which kazoo and WriteLock share with nobody, and else by the form of the id.
// This library writes Curator's and kazoo's names and is called after them: the data says whose program it is.
func writerOf(c kind.Contender) string {
	switch c.Marker {
	case "__lock__", "__rlock__":
		return "kazoo"
	case "x-":
		return "writelock"
	}
	if c.GUID != "" && !strings.Contains(c.GUID, "-") {
		return "go-zookeeper" // 32 hexadecimal digits without the dashes of a UUID
	}
	return "curator"
}

// Describe fills in what the holder wrote about itself: JSON of ours, Vitess's and Terraform's field names too, or
// plain text.
func (k *Contender) Describe(data []byte) {
	k.Data = data
	k.Revoked = string(data) == kind.RevokeMessage
	var h struct {
		kind.Holder
		HostName  string    `json:"HostName"`
		UserName  string    `json:"UserName"`
		Who       string    `json:"Who"`
		Created   time.Time `json:"Created"`
		ProcessID int       `json:"ProcessID"`
	}
	if json.Unmarshal(data, &h) == nil {
		k.ID, k.Host, k.PID, k.Since = h.ID, h.Host, h.PID, h.Since
		if h.Held != nil {
			k.Held = *h.Held
		}
		k.fill(h.Who, h.UserName, h.HostName, h.ProcessID, h.Created)
		k.ID, k.Host = Visible(k.ID), Visible(k.Host)
		return
	}
	if !k.Revoked {
		k.ID = printable(data)
	}
}

// fill takes what the other known field names say, where ours say nothing.
func (k *Contender) fill(who, user, host string, pid int, created time.Time) {
	if k.ID == "" {
		k.ID = who
	}
	if k.ID == "" && user != "" {
		k.ID = user
	}
	if k.Host == "" {
		k.Host = host
	}
	if k.PID == 0 {
		k.PID = pid
	}
	if k.Since.IsZero() {
		k.Since = created
	}
}

// maxIDText bounds what is shown of a foreign client's data.
const maxIDText = 256

// printable is data as text when it is that, else "".
func printable(data []byte) string {
	if s := string(data); len(data) <= maxIDText && utf8.Valid(data) && Visible(s) == s {
		return s
	}
	return ""
}

// Visible is a foreign text with what cannot be seen written as Go does: it ends up on terminals and in errors, where
// control characters would be obeyed, and marks of direction and spaces without width make one name read as another.
func Visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
