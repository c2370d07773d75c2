package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// reply renders a reply: its code, its zxid, and its record when there is one.
func (p *player) reply(op Op, f frame) (text string) {
	// A record that is shorter than it should be is an answer to compare like others.
	defer func() {
		if recover() != nil {
			text += " (the record is cut short)"
		}
	}()
	zxid := p.zxid(f.zxid)
	if op.Op == opAuth { // 0 here, and a 0 is told as it is
		zxid = fmt.Sprint(f.zxid)
	}
	text = fmt.Sprintf("code=%d zxid=%s", f.code, zxid)
	if f.code == 0 {
		text += p.record(op, &f.body)
	}
	if len(f.body.b) > 0 {
		text += fmt.Sprintf(" and %d bytes more", len(f.body.b))
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
func (p *player) record(op Op, i *in) string {
	switch op.Op {
	case opCreate, opSync:
		return fmt.Sprintf(" %q", p.rel(i.str()))
	case opCreate2, opCreateContainer, opCreateTTL:
		return fmt.Sprintf(" %q %s", p.rel(i.str()), p.stat(i))
	case opExists, opSetData, opSetACL:
		return " " + p.stat(i)
	case opGetData:
		return " " + p.data(i) + " " + p.stat(i)
	case opChildren:
		return p.children(i)
	case opChildren2:
		return p.children(i) + " " + p.stat(i)
	case opEphemerals:
		var v []string
		for _, s := range i.strs() {
			v = append(v, p.rel(s))
		}
		slices.Sort(v)
		return fmt.Sprintf(" %q", v)
	case opCount, opAddWatch:
		return fmt.Sprintf(" %d", i.i32())
	case opGetACL:
		return " " + p.acl(i) + " " + p.stat(i)
	case opWhoAmI:
		return " " + pairs(i, i.i32())
	case opMulti, opMultiRead:
		return p.results(i)
	}
	return ""
}

// data tells null from empty: ZooKeeper keeps both.
func (p *player) data(i *in) string {
	b := i.buf()
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%q", b)
}

// children sorts: the order on the wire is that of a Java hash set.
func (p *player) children(i *in) string {
	v := i.strs()
	slices.Sort(v)
	return fmt.Sprintf(" %q", v)
}

// acl sorts for the same reason: "auth" expands to a hash set of identities.
func (p *player) acl(i *in) string {
	var v []string
	for range i.i32() {
		perms := i.i32()
		v = append(v, fmt.Sprintf("%d:%s:%s", perms, i.str(), i.str()))
	}
	slices.Sort(v)
	return fmt.Sprint(v)
}

func pairs(i *in, n int32) string {
	var v []string
	for range n {
		v = append(v, i.str()+":"+i.str())
	}
	slices.Sort(v)
	return fmt.Sprint(v)
}

// stat renders a Stat without clock readings: that mtime is ctime until the
// data has been changed, and not before it afterwards, is checked instead.
func (p *player) stat(i *in) string {
	czxid, mzxid, ctime, mtime := i.i64(), i.i64(), i.i64(), i.i64()
	version, cversion, aversion, owner := i.i32(), i.i32(), i.i32(), i.i64()
	length, kids, pzxid := i.i32(), i.i32(), i.i64()
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
func (p *player) results(i *in) string {
	var b strings.Builder
	for {
		typ, done, code := i.i32(), i.flag(), i.i32()
		if done {
			return b.String()
		}
		fmt.Fprintf(&b, "\n      = type=%d code=%d", typ, code)
		switch typ {
		case -1:
			fmt.Fprintf(&b, " error=%d", i.i32())
		case opDelete, opCheck:
		default:
			b.WriteString(p.record(Op{Op: typ}, i))
		}
	}
}
