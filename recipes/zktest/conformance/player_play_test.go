package conformance

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// Dial opens one connection to a server.
type Dial func() (net.Conn, error)

// player runs a sequence against one server and records all that the server sends, in words that do not depend on the server's clock, zxids
// or session ids.
type player struct {
	dial     Dial
	root     string
	base     int64 // zxid of the root's creation
	sessions map[int]*session
	owners   map[int64]string // session ids by name
	lines    []string
}

// sessionCount is how many sessions a sequence has.
const sessionCount = 3

const codeNoNode, codeNodeExists = -101, -110

// play runs a sequence below root, which it creates unless it is there. The transcript has one entry for every reply and every event.
func play(dial Dial, root string, ops []Op) ([]string, error) {
	return (&player{dial: dial, root: root}).play(ops)
}

func (p *player) play(ops []Op) ([]string, error) {
	p.sessions, p.owners = map[int]*session{}, map[int64]string{}
	defer p.close()
	for i := range sessionCount {
		if _, err := p.session(i); err != nil {
			return nil, err
		}
	}
	var w wire.Encoder
	Op{Op: wire.OpCreate, Path: "", ACL: anyone}.encode(p, &w, nil)
	f, _, err := p.sessions[0].call(wire.OpCreate, w.B)
	if err != nil || f.code != 0 && f.code != codeNodeExists {
		return nil, fmt.Errorf("create the sequence's root %s: code %d, %v", p.root, f.code, err)
	}
	p.base = f.zxid
	for _, op := range ops {
		if err := p.step(op); err != nil {
			return p.lines, fmt.Errorf("%v: %w", op, err)
		}
	}
	return p.lines, nil
}

// close ends the sessions on the server too: one that expired later would be a transaction amid the next sequence.
func (p *player) close() {
	for _, s := range p.sessions {
		s.call(wire.OpCloseSession, nil)
		s.conn.Close()
	}
}

// session returns a session. It opens one that is not there (any more).
func (p *player) session(i int) (*session, error) {
	if s := p.sessions[i]; s != nil {
		return s, nil
	}
	s, err := open(p.dial, 0, nil, 0)
	if err != nil {
		return nil, err
	}
	p.sessions[i] = s
	p.owners[s.id] = fmt.Sprintf("s%d", i)
	return s, nil
}

// abs puts the sequence's root before a path, and rel removes it.
func (p *player) abs(path string) string {
	if raw, ok := strings.CutPrefix(path, "!"); ok {
		return raw
	}
	return p.root + path
}

func (p *player) rel(path string) string { return strings.TrimPrefix(path, p.root) }

func (p *player) log(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// step runs one operation, and then reads what every session has received: the answer to a ping comes after the events due before it.
func (p *player) step(op Op) error {
	s, err := p.session(op.S)
	if err != nil {
		return err
	}
	if op.Op == stepReconnect {
		p.log("%v", op)
		if err := p.reconnect(op.S); err != nil {
			return err
		}
		return p.flush(op)
	}
	if op.Op == stepPipeline {
		return p.pipeline(op, s)
	}
	var w wire.Encoder
	code := op.Op
	op.encode(p, &w, s)
	if op.Op == stepGarbage {
		code = op.Mode
	}
	f, events, err := s.call(code, w.B)
	p.events(op, op.S, events)
	if err != nil {
		p.log("%v", op)
		if err := p.lost(op.S); err != nil {
			return err
		}
		return p.flush(op)
	}
	p.log("%v -> %s", op, p.reply(op, f))
	if op.Op == wire.OpCloseSession {
		s.conn.Close()
		delete(p.sessions, op.S)
	}
	return p.flush(op)
}

// pipeline sends requests back to back and then reads their replies, which must come in order.
func (p *player) pipeline(op Op, s *session) error {
	var xids []int32
	for _, sub := range op.Ops {
		var w wire.Encoder
		sub.encode(p, &w, s)
		xid, err := s.send(sub.Op, w.B)
		if err != nil {
			return err
		}
		xids = append(xids, xid)
	}
	for i, sub := range op.Ops {
		f, events, err := s.await(xids[i])
		p.events(op, op.S, events)
		if err != nil {
			return fmt.Errorf("%v: %w", sub, err)
		}
		sub.S = op.S
		p.log("| %v -> %s", sub, p.reply(sub, f))
	}
	return p.flush(op)
}

// flush pings every session. The reply comes after all events that were due. Its zxid tells whether there was a transaction that no reply
// has shown.
func (p *player) flush(op Op) error {
	for i := range sessionCount {
		s := p.sessions[i]
		if s == nil {
			continue
		}
		f, events, err := s.call(wire.OpPing, nil)
		p.events(op, i, events)
		if err != nil {
			if err := p.lost(i); err != nil {
				return err
			}
			continue
		}
		if f.zxid != p.sessions[i].last {
			p.log("   s%d ping zxid %s", i, p.zxid(f.zxid))
		}
	}
	return nil
}

// lost records that the server has ended a connection, a fact to compare, and takes the session up again.
func (p *player) lost(i int) error {
	p.log("   s%d connection lost", i)
	return p.reconnect(i)
}

func (p *player) reconnect(i int) error {
	old := p.sessions[i]
	old.conn.Close()
	s, err := open(p.dial, old.id, old.passwd, old.last)
	if err != nil {
		return fmt.Errorf("session %d: %w", i, err)
	}
	s.xid = old.xid // never the same twice in one session
	p.sessions[i], p.owners[s.id] = s, fmt.Sprintf("s%d", i)
	p.log("   s%d has the same session: %v", i, s.id == old.id)
	return nil
}

// events records what a session received. The end of a session deletes its ephemerals in the order of a Java hash set, which is no promise:
// those events are sorted by path.
func (p *player) events(op Op, session int, events []frame) {
	var lines []string
	for _, f := range events {
		typ, state, path := f.body.Int32(), f.body.Int32(), f.body.Str()
		lines = append(lines, fmt.Sprintf("   s%d event xid=%d zxid=%s code=%d type=%d state=%d %q",
			session, f.xid, p.zxid(f.zxid), f.code, typ, state, p.rel(path)))
	}
	if op.Op == wire.OpCloseSession {
		slices.Sort(lines)
	}
	p.lines = append(p.lines, lines...)
}

// reply renders a reply: its code, its zxid, and its record when there is one.
func (p *player) reply(op Op, f frame) string {
	zxid := p.zxid(f.zxid)
	if op.Op == wire.OpAuth { // 0 here, and shown as it is
		zxid = fmt.Sprint(f.zxid)
	}
	text := fmt.Sprintf("code=%d zxid=%s", f.code, zxid)
	if f.code == 0 {
		text += p.record(op, &f.body)
	}
	if f.body.Bad { // an answer to compare like any other
		text += " (the record is cut short)"
	}
	if len(f.body.B) > 0 {
		text += fmt.Sprintf(" and %d bytes more", len(f.body.B))
	}
	return text
}

// zxid shows a transaction as its distance from the creation of the sequence's root, so two servers with different pasts agree. 0 and -1
// are shown as they are.
func (p *player) zxid(z int64) string {
	if z <= 0 {
		return fmt.Sprint(z)
	}
	return fmt.Sprintf("%+d", z-p.base)
}

// record renders what follows the header of a reply without an error. It reads only the operation's record: reply reports the bytes that
// are left.
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

// stat renders a Stat without clock readings. Instead it checks that mtime is ctime until the data is changed, and not before it
// afterwards.
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

// results renders a transaction's results, up to the header that says done. Each type tells which record follows.
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
