package node

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
)

// NewContender reads a contender from its name, and from its node's data and stat unless they are nil.
func NewContender(dir string, c kind.Contender, data []byte, stat *zk.Stat) kind.Party {
	k := kind.Party{Path: kind.JoinPath(dir, c.Name), Name: c.Name, GUID: c.GUID, Seq: c.Seq, Shared: c.Shared, Writer: writerOf(c)}
	if data != nil {
		Describe(&k, data)
	}
	if stat != nil {
		k.Session, k.Token, k.Written = stat.EphemeralOwner, uint64(stat.Czxid), uint64(stat.Mzxid)
		if k.Since.IsZero() { // the contender does not say when it queued; its node's creation does
			k.Since = time.UnixMilli(stat.Ctime).UTC()
		}
	}
	return k
}

// writerOf names the client. Only kazoo and WriteLock have their own markers; for other markers, the form of the id decides. This
// library writes Curator's or kazoo's names, so writerOf takes it for Curator or kazoo. Only the node's data shows the difference.
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

// Describe fills in the contender's own data: JSON in this library's format, or plain text.
func Describe(k *kind.Party, data []byte) {
	k.Data = data
	k.Revoked = string(data) == kind.RevokeMessage
	var h kind.Holder
	if json.Unmarshal(data, &h) == nil {
		k.ID, k.Host, k.PID, k.Since = kind.Visible(h.ID), kind.Visible(h.Host), h.PID, h.Since
		if h.Held != nil {
			k.Held = *h.Held
		}
		return
	}
	if !k.Revoked {
		k.ID = printableText(data)
	}
}

// maxIDText is the longest data of a foreign client that counts as its ID.
const maxIDText = 256

// printableText returns data as a string if it is short and printable, otherwise "".
func printableText(data []byte) string {
	if s := string(data); len(data) <= maxIDText && utf8.Valid(data) && kind.Visible(s) == s {
		return s
	}
	return ""
}
