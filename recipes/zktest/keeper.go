package zktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// brand is whose server this one behaves like.
type brand int

const (
	zooKeeper brand = iota
	clickHouse
)

// KeeperFeature is an operation that a ClickHouse Keeper has only if its flag is on. Its value is the number of the flag in
// /keeper/feature_flags.
type KeeperFeature int

// The features that this server can have.
const (
	KeeperMultiRead         KeeperFeature = 1 // multiRead
	KeeperPersistentWatches KeeperFeature = 7 // addWatch, setWatches, setWatches2, checkWatches, removeWatches
	KeeperCreateWithStats   KeeperFeature = 8 // create2, outside a multi
)

var featureNames = map[KeeperFeature]string{
	KeeperMultiRead: "multi_read", KeeperPersistentWatches: "persistent_watches", KeeperCreateWithStats: "create_with_stats",
}

// WithKeeper makes the server behave like a ClickHouse Keeper, as its source and documentation have it; see "Keeper" in the package
// documentation. Sessions expire at multiples of 500 ms: a WithTickTime behind it sets another beat.
func WithKeeper(features ...KeeperFeature) Option {
	return func(o *options) { o.brand, o.features, o.tick = clickHouse, features, 500*time.Millisecond }
}

// The limits of a Keeper's session timeouts, and what a client gets that asks for 0.
const (
	keeperShortest = 10 * time.Second
	keeperLongest  = 100 * time.Second
	keeperDefault  = 30 * time.Second
)

// keeperRejects is the protocol version of a Keeper's answer to a client that it gives no session.
const keeperRejects = 42

const (
	keeperPath   = "/keeper"
	apiPath      = "/keeper/api_version"
	featuresPath = "/keeper/feature_flags"
)

// putKeepers adds what a Keeper has in place of /zookeeper. Nobody changes it.
func (t *tree) putKeepers(features []KeeperFeature) {
	flags := make([]byte, 2)
	for _, f := range features {
		flags[f/8] |= 1 << (7 - f%8)
	}
	t.put(keeperPath, &node{data: []byte{}, acl: openACL})
	t.put(apiPath, &node{data: []byte("2"), acl: openACL})
	t.put(featuresPath, &node{data: flags, acl: openACL})
}

func isKeepers(path string) bool {
	return path == keeperPath || strings.HasPrefix(path, keeperPath+"/")
}

// keeperHandshake opens a session for whoever comes: which one the client asks for, and what it has seen, is read and forgotten.
func (s *Server) keeperHandshake(c *conn, r *connectRequest) ([]byte, bool) {
	switch {
	case c.session != nil:
		return nil, true
	case s.readOnly: // no leader
		return c.connectReply(nil), true
	case c.v.cutOff:
		c.swallowed = true
		return nil, false
	}
	timeout := time.Duration(r.timeout) * time.Millisecond
	if timeout == 0 {
		timeout = keeperDefault
	}
	timeout = min(max(timeout, keeperShortest), keeperLongest)
	return s.attach(c, s.openSession(timeout), timeout), false
}

// keeperReply grants a session, or refuses one. It never has ZooKeeper's read-only byte.
func keeperReply(x *session) []byte {
	e := newEncoder()
	if x == nil {
		e.Int32(keeperRejects)
		e.Int32(int32(keeperDefault / time.Millisecond))
		e.Int64(-1)
	} else {
		e.Int32(0)
		e.Int32(int32(x.timeout / time.Millisecond))
		e.Int64(x.id)
	}
	e.Buffer(make([]byte, 16))
	return e.frame()
}

// knows reports whether the server executes a request, or ends the connection that it came on.
func (s *Server) knows(r *request) bool {
	if s.opts.brand == zooKeeper {
		return true
	}
	need := map[int32]KeeperFeature{
		jute.OpMultiRead: KeeperMultiRead, jute.OpCreate2: KeeperCreateWithStats,
		jute.OpAddWatch: KeeperPersistentWatches, jute.OpSetWatches: KeeperPersistentWatches, jute.OpSetWatches2: KeeperPersistentWatches,
		jute.OpCheckWatches: KeeperPersistentWatches, jute.OpRemoveWatches: KeeperPersistentWatches,
	}
	feature, optional := need[r.op]
	switch r.op {
	case jute.OpWhoAmI, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpSASL, jute.OpReconfig, jute.OpCreateContainer,
		jute.OpCreateTTL, jute.OpDeleteContainer:
		return false
	case jute.OpMulti:
		for i := range r.ops {
			if op := r.ops[i].op; op != jute.OpCreate && op != jute.OpDelete && op != jute.OpSetData && op != jute.OpCheck {
				return false
			}
		}
	}
	_, known := opNames[r.op]
	return known && (!optional || slices.Contains(s.opts.features, feature))
}

// heard reports whether a request keeps its session alive. To a Keeper reads are the business of the server that is asked, and
// the one that expires sessions does not hear of them.
func (s *Server) heard(op int32) bool {
	switch op {
	case jute.OpAuth, jute.OpSASL:
		return s.opts.brand == clickHouse
	case jute.OpPing, jute.OpSync:
		return true
	}
	return s.opts.brand == zooKeeper || isWrite(op)
}

// keeperACL is what a Keeper stores: of world, digest and auth entries that are sound; others it drops, and says so only if nothing
// is left.
func keeperACL(ids []identity, acl []ACL) ([]ACL, Code) {
	var out []ACL
	valid := len(acl) == 0
	for _, a := range acl {
		switch {
		case a.Scheme == "world" && a.ID == "anyone":
			out, valid = append(out, a), true
		case a.Scheme == "auth":
			for _, i := range ids {
				if i.scheme == "digest" {
					out, valid = append(out, ACL{Perms: a.Perms, Scheme: i.scheme, ID: i.id}), true
				}
			}
		case a.Scheme == "digest":
			if strings.Count(a.ID, ":") != 1 {
				return nil, jute.CodeInvalidACL
			}
			out, valid = append(out, a), true
		}
	}
	switch {
	case !valid:
		return nil, jute.CodeInvalidACL
	case len(out) == 0, slices.Equal(out, openACL):
		return openACL, jute.CodeOK
	}
	return out, jute.CodeOK
}

// Stop begins the graceful stop of a Keeper ([WithKeeper]), which ends the sessions of its clients: their nodes go at once, and the
// other servers tell their clients. Its own clients are told nothing. What they have sent, and is not executed yet, is answered
// SessionExpired, and their connections stay open until they send something or [Server.Restart]. New ones are refused.
func (s *Server) Stop() { s.views[0].stop() }

// Restart ends the connections that are left of before [Server.Stop], and serves again.
func (s *Server) Restart() { s.views[0].restart() }

// Stop is [Server.Stop] for this server and its clients.
func (r *Replica) Stop() { r.v.stop() }

// Restart is [Server.Restart] for this server.
func (r *Replica) Restart() { r.v.restart() }

func (v *view) stop() {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	v.stopped = true
	for _, c := range s.connections() {
		if c.v != v {
			continue
		}
		v.watches.forget(c)
		waiting := c.in[:c.arrived]
		for i := range waiting {
			if r := &waiting[i].req; r.op != opConnect && waiting[i].word == "" && !waiting[i].eof {
				c.reply(replyFrame(r.xid, 0, jute.CodeSessionExpired).frame())
			}
		}
		if len(waiting) > 0 {
			c.close()
		}
	}
	for _, x := range s.sessionsByID() {
		if x.view == v {
			s.endSession(x)
		}
	}
}

func (v *view) restart() {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	v.stopped = false
	for _, c := range s.connections() {
		if c.v == v {
			c.close()
		}
	}
}

// keeperVersion is the version that a Keeper's words report.
const keeperVersion = "v24.8.0.0-zktest-0000000000000000000000000000000000000000"

// keeperWords are the four-letter words of a Keeper that are answered here. It answers nothing to the others, or to forbidden ones.
var keeperWords = map[string]func(*Server, *strings.Builder){
	"ruok": words["ruok"], "isro": (*Server).wordIsRO, "crst": (*Server).wordCrst, "srst": (*Server).wordSrst,
	"srvr": func(s *Server, b *strings.Builder) { s.keeperStat(b, false) },
	"stat": func(s *Server, b *strings.Builder) { s.keeperStat(b, true) },
	"cons": func(s *Server, b *strings.Builder) { s.keeperCons(b, true) },
	"mntr": (*Server).keeperMntr,
	"conf": (*Server).keeperConf,
	"apiv": func(_ *Server, b *strings.Builder) { b.WriteString("2") },
	"ftfl": (*Server).keeperFlags,
}

func (s *Server) keeperStat(b *strings.Builder, clients bool) {
	fmt.Fprintf(b, "ClickHouse Keeper version: %s\n", keeperVersion)
	if clients {
		b.WriteString("Clients:\n")
		s.keeperCons(b, false)
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "Latency min/avg/max: 0/0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\nZxid: 0x%x\nMode: %s\nNode count: %d\n",
		s.packetsIn, s.packetsOut, len(s.conns), s.outstanding(), s.zxid, s.mode(), len(s.tree.nodes))
}

func (s *Server) keeperCons(b *strings.Builder, details bool) {
	for _, c := range s.connections() {
		fmt.Fprintf(b, " %s(recved=%d,sent=%d", strings.TrimPrefix(c.remote(), "/"), c.packetsIn, c.packetsOut)
		if x := c.session; details && x != nil {
			fmt.Fprintf(b, ",sid=0x%016x,lop=%s,est=%d,to=%d,lcxid=0x%016x,lzxid=0x%016x,lresp=%d,llat=0,minlat=0,avglat=0,maxlat=0",
				x.id, wordOp(c.lastOp), c.since.UnixMilli(), x.timeout.Milliseconds(), uint32(c.lastXid), s.zxid, time.Since(s.born).Milliseconds())
		}
		b.WriteString(")\n")
	}
}

func (s *Server) keeperMntr(b *strings.Builder) {
	for _, m := range []struct{ key, value string }{
		{"version", keeperVersion}, {"avg_latency", "0"}, {"max_latency", "0"}, {"min_latency", "0"},
		{"packets_received", strconv.Itoa(s.packetsIn)}, {"packets_sent", strconv.Itoa(s.packetsOut)},
		{"num_alive_connections", strconv.Itoa(len(s.conns))}, {"outstanding_requests", strconv.Itoa(s.outstanding())},
		{"server_state", s.mode()}, {"znode_count", strconv.Itoa(len(s.tree.nodes))},
	} {
		fmt.Fprintf(b, "zk_%s\t%s\n", m.key, m.value)
	}
}

func (s *Server) keeperConf(b *strings.Builder) {
	fmt.Fprintf(b, "server_id=1\nmin_session_timeout_ms=%d\nsession_timeout_ms=%d\ndead_session_check_period_ms=%d\n",
		keeperShortest.Milliseconds(), keeperLongest.Milliseconds(), s.opts.tick.Milliseconds())
}

func (s *Server) keeperFlags(b *strings.Builder) {
	for _, f := range []KeeperFeature{KeeperMultiRead, KeeperPersistentWatches, KeeperCreateWithStats} {
		on := 0
		if slices.Contains(s.opts.features, f) {
			on = 1
		}
		fmt.Fprintf(b, "%s\t%d\n", featureNames[f], on)
	}
}
