package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// reply renders a reply: its code, its zxid, and its record when there is one.
func (p *player) reply(op Op, f frame) string {
	zxid := p.zxid(f.zxid)
	if op.Op == wire.OpAuth { // 0 here, and a 0 is told as it is
		zxid = fmt.Sprint(f.zxid)
	}
	text := fmt.Sprintf("code=%d zxid=%s", f.code, zxid)
	if f.code == 0 {
		text += p.record(op, &f.body)
	}
	if f.body.Bad { // an answer to compare like others
		text += " (the record is cut short)"
	}
	if len(f.body.B) > 0 {
		text += fmt.Sprintf(" and %d bytes more", len(f.body.B))
	}
	return text
}

// zxid tells a transaction by its distance from the creation of the sequence's root,
// so two servers with different pasts agree. 0 and -1 are told as they are.
func (p *player) zxid(z int64) string {
	if z <= 0 {
		return fmt.Sprint(z)
	}
	return fmt.Sprintf("%+d", z-p.base)
}

// record renders what follows the header of a reply that is no error. It reads only the operation's record: reply tells of bytes
// that are left.
func (p *player) record(op Op, i *wire.Decoder) string {
	switch op.Op {
	case wire.OpCreate, wire.OpSync:
		return fmt.Sprintf(" %q", p.rel(i.Str()))
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return fmt.Sprintf(" %q %s", p.rel(i.Str()), p.stat(i))
	case wire.OpExists, wire.OpSetData, wire.OpSetACL:
		return " " + p.stat(i)
	case wire.OpGetData:
		return " " + data(i) + " " + p.stat(i)
	case wire.OpGetChildren:
		return p.children(i)
	case wire.OpGetChildren2:
		return p.children(i) + " " + p.stat(i)
	case wire.OpGetEphemerals:
		var v []string
		for _, s := range all(i) {
			v = append(v, p.rel(s))
		}
		slices.Sort(v)
		return fmt.Sprintf(" %q", v)
	case wire.OpGetAllChildrenNumber, wire.OpAddWatch:
		return fmt.Sprintf(" %d", i.Int32())
	case wire.OpGetACL:
		return " " + p.acl(i) + " " + p.stat(i)
	case wire.OpWhoAmI:
		return " " + pairs(i, i.Count(8))
	case wire.OpMulti, wire.OpMultiRead:
		return p.results(i)
	}
	return ""
}

// data tells null from empty: ZooKeeper keeps both.
func data(i *wire.Decoder) string {
	b := i.Buffer()
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%q", b)
}

// children sorts: the order on the wire is that of a Java hash set.
func (p *player) children(i *wire.Decoder) string {
	v := all(i)
	slices.Sort(v)
	return fmt.Sprintf(" %q", v)
}

// acl sorts for the same reason: "auth" expands to a hash set of identities.
func (p *player) acl(i *wire.Decoder) string {
	var v []string
	for range i.Count(12) {
		perms := i.Int32()
		v = append(v, fmt.Sprintf("%d:%s:%s", perms, i.Str(), i.Str()))
	}
	slices.Sort(v)
	return fmt.Sprint(v)
}

func pairs(i *wire.Decoder, n int) string {
	var v []string
	for range n {
		v = append(v, i.Str()+":"+i.Str())
	}
	slices.Sort(v)
	return fmt.Sprint(v)
}

// stat renders a Stat without clock readings: that mtime is ctime until the
// data has been changed, and not before it afterwards, is checked instead.
func (p *player) stat(i *wire.Decoder) string {
	czxid, mzxid, ctime, mtime := i.Int64(), i.Int64(), i.Int64(), i.Int64()
	version, cversion, aversion, owner := i.Int32(), i.Int32(), i.Int32(), i.Int64()
	length, kids, pzxid := i.Int32(), i.Int32(), i.Int64()
	when := "ok"
	if mzxid == czxid && mtime != ctime || mtime < ctime {
		when = fmt.Sprintf("mtime-ctime=%d", mtime-ctime)
	}
	who := p.owners[owner] // the ids are the servers' own
	if who == "" {
		who = fmt.Sprint(owner)
	}
	return fmt.Sprintf("{c%s m%s p%s v%d cv%d av%d owner %s len %d kids %d times %s}",
		p.zxid(czxid), p.zxid(mzxid), p.zxid(pzxid), version, cversion, aversion, who, length, kids, when)
}

// results renders a transaction's, up to the header that says done. Their types tell which record follows.
func (p *player) results(i *wire.Decoder) string {
	var b strings.Builder
	for {
		typ, done, code := i.Int32(), i.Bool(), i.Int32()
		if done || i.Bad {
			return b.String()
		}
		fmt.Fprintf(&b, "\n      = type=%d code=%d", typ, code)
		switch typ {
		case -1:
			fmt.Fprintf(&b, " error=%d", i.Int32())
		case wire.OpDelete, wire.OpCheck:
		default:
			b.WriteString(p.record(Op{Op: typ}, i))
		}
	}
}
