package zktest

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// words are the four-letter words of a ZooKeeper server; nil for those that this
// server does not answer.
var words = map[string]func(*Server, *strings.Builder){
	"ruok": func(_ *Server, b *strings.Builder) { b.WriteString("imok") },
	"isro": (*Server).wordIsRO,
	"srvr": (*Server).wordSrvr,
	"stat": (*Server).wordStat,
	"mntr": (*Server).wordMntr,
	"cons": (*Server).wordCons,
	"dump": (*Server).wordDump,
	"wchs": (*Server).wordWchs,
	"wchp": (*Server).wordWchp,
	"wchc": (*Server).wordWchc,
	"conf": (*Server).wordConf,
	"envi": (*Server).wordEnvi,
	"crst": (*Server).wordCrst,
	"srst": (*Server).wordSrst,
	"dirs": nil, "gtmk": nil, "hash": nil, "icfg": nil, "lead": nil, "obsr": nil, "orst": nil, "stmk": nil, "sysp": nil,
}

// knownWord distinguishes a word from the length of a connect request. It includes
// words without an answer here: ZooKeeper knows them, and does not wait for a frame of
// that length.
func knownWord(w string) bool {
	_, ok := words[w]
	return ok
}

// fourLetter is the answer to a four-letter word, after which ZooKeeper closes
// the connection. Words without an answer here get the one that ZooKeeper gives to
// words outside its whitelist.
func (s *Server) fourLetter(word string) string {
	var b strings.Builder
	if f := words[word]; f != nil && (s.opts.words == nil || slices.Contains(s.opts.words, word)) {
		f(s, &b)
	} else {
		fmt.Fprintf(&b, "%s is not executed because it is not in the whitelist.\n", word)
	}
	return b.String()
}

func (s *Server) wordIsRO(b *strings.Builder) {
	if s.readOnly {
		b.WriteString("ro")
	} else {
		b.WriteString("rw")
	}
}

func (s *Server) mode() string {
	if s.readOnly {
		return "read-only"
	}
	return "standalone"
}

// znodes counts as ZooKeeper does, which files the root under two names.
func (s *Server) znodes() int { return s.tree.Len() + 1 }

func (s *Server) wordSrvr(b *strings.Builder) { s.statWord(b, false) }
func (s *Server) wordStat(b *strings.Builder) { s.statWord(b, true) }

func (s *Server) statWord(b *strings.Builder, clients bool) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", s.opts.version)
	if s.readOnly {
		b.WriteString("READ-ONLY mode; serving only read-only clients\n")
	}
	if clients {
		b.WriteString("Clients:\n")
		s.listConns(b, false)
	}
	fmt.Fprintf(b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
		s.packetsIn, s.packetsOut, len(s.conns), s.outstanding())
	fmt.Fprintf(b, "Zxid: 0x%x\nMode: %s\nNode count: %d\n", s.zxid, s.mode(), s.znodes())
}

// outstanding counts the requests that have arrived and are not executed because a
// fault holds them.
func (s *Server) outstanding() int {
	n := 0
	for c := range s.conns {
		n += c.arrived
	}
	return n
}

// wordMntr reports the gauges that mean something here, under ZooKeeper's
// names. Its hundreds of processing metrics have no counterpart.
func (s *Server) wordMntr(b *strings.Builder) {
	ephemerals := 0
	for _, id := range s.tree.Owners() {
		ephemerals += len(s.tree.Owned(id))
	}
	for _, m := range []struct {
		key   string
		value any
	}{
		{"version", s.opts.version}, {"server_state", s.mode()}, {"ephemerals_count", ephemerals},
		{"num_alive_connections", len(s.conns)}, {"avg_latency", "0.0"}, {"outstanding_requests", s.outstanding()},
		{"znode_count", s.znodes()}, {"global_sessions", len(s.sessions)}, {"packets_sent", s.packetsOut},
		{"packets_received", s.packetsIn}, {"watch_count", s.views[0].watches.Data.Len() + s.views[0].watches.Child.Len()},
		{"min_latency", 0}, {"approximate_data_size", s.tree.Bytes()}, {"local_sessions", 0},
		{"uptime", time.Since(s.born).Milliseconds()}, {"max_latency", 0},
	} {
		fmt.Fprintf(b, "zk_%s\t%v\n", m.key, m.value)
	}
}

func (s *Server) wordCons(b *strings.Builder) { s.listConns(b, true) }

// listConns writes one line per connection; details exist only with a session.
func (s *Server) listConns(b *strings.Builder, details bool) {
	for _, c := range s.connections() {
		fmt.Fprintf(b, " %s[%d](queued=%d,recved=%d,sent=%d", c.remote(), min(c.packetsOut, 1), c.arrived, c.packetsIn, c.packetsOut)
		if x := c.session; details && x != nil {
			fmt.Fprintf(b, ",sid=0x%x,lop=%s,est=%d,to=%d,lcxid=0x%x,lzxid=0x%x,lresp=%d,llat=0,minlat=0,avglat=0,maxlat=0",
				x.id, wordOp(c.lastOp), c.since.UnixMilli(), x.timeout.Milliseconds(), uint32(c.lastXid), s.zxid, time.Since(s.born).Milliseconds())
		}
		b.WriteString(")\n")
	}
	b.WriteString("\n")
}

// remote is the client's address, as Java writes it.
func (c *conn) remote() string {
	if a, ok := c.raw.RemoteAddr().(*net.TCPAddr); ok {
		return "/" + a.String()
	}
	return fmt.Sprintf("/%s:%d", c.ip, c.id) // a pipe has no port
}

// wordDump lists sessions by the time they are due to expire. Those of one tick
// expire together, so their deadlines are equal to the nanosecond.
func (s *Server) wordDump(b *strings.Builder) {
	buckets := map[time.Time][]*session{}
	for _, x := range s.sessionsByID() {
		buckets[x.deadline] = append(buckets[x.deadline], x)
	}
	fmt.Fprintf(b, "SessionTracker dump:\nSession Sets (%d)/(%d):\n", len(buckets), len(s.sessions))
	for _, at := range slices.SortedFunc(maps.Keys(buckets), time.Time.Compare) {
		fmt.Fprintf(b, "%d expire at %s:\n", len(buckets[at]), at.UTC().Format(time.UnixDate))
		for _, x := range buckets[at] {
			fmt.Fprintf(b, "\t0x%x\n", x.id)
		}
	}
	fmt.Fprintf(b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(s.tree.Owners()))
	for _, id := range s.tree.Owners() {
		fmt.Fprintf(b, "0x%x:\n", id)
		for _, path := range s.tree.Owned(id) {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	fmt.Fprintf(b, "Connections dump:\nConnections Sets (1)/(%d):\n", len(s.conns))
	for _, c := range s.connections() {
		fmt.Fprintf(b, "\tip: %s sessionId: 0x%x\n", c.remote(), c.sid.Load())
	}
}

// The watch words count data watches only, as ZooKeeper's do.
func (s *Server) wordWchs(b *strings.Builder) {
	t := s.views[0].watches.Data
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", t.Watchers(), len(t.Paths()), t.Len())
}

func (s *Server) wordWchp(b *strings.Builder) {
	for _, path := range s.views[0].watches.Data.Paths() {
		fmt.Fprintf(b, "%s\n", path)
		for _, c := range s.connections() {
			if s.views[0].watches.Data.Watches(path, c) {
				fmt.Fprintf(b, "\t0x%x\n", c.sid.Load())
			}
		}
	}
	b.WriteString("\n")
}

// wordWchc is wordWchp grouped by session.
func (s *Server) wordWchc(b *strings.Builder) {
	t := s.views[0].watches.Data
	for _, c := range s.connections() {
		for i, path := range t.PathsOf(c) {
			if i == 0 {
				fmt.Fprintf(b, "0x%x\n", c.sid.Load())
			}
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	b.WriteString("\n")
}

func (s *Server) wordCrst(b *strings.Builder) {
	for c := range s.conns {
		c.packetsIn, c.packetsOut = 0, 0
	}
	b.WriteString("Connection stats reset.\n")
}

func (s *Server) wordSrst(b *strings.Builder) {
	s.packetsIn, s.packetsOut = 0, 0
	b.WriteString("Server stats reset.\n")
}

// wordEnvi writes a Java program's keys, empty except for the server's version, which clients look for.
func (s *Server) wordEnvi(b *strings.Builder) {
	fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\nhost.name=localhost\n", s.opts.version)
	for _, key := range []string{
		"java.version", "java.vendor", "java.home", "java.class.path", "java.library.path", "java.io.tmpdir", "java.compiler",
		"os.name", "os.arch", "os.version", "user.name", "user.home", "user.dir", "os.memory.free", "os.memory.max", "os.memory.total",
	} {
		fmt.Fprintf(b, "%s=\n", key)
	}
}

func (s *Server) wordConf(b *strings.Builder) {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		port = "-1"
	}
	fmt.Fprintf(b, "clientPort=%s\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\n"+
		"tickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nclientPortListenBacklog=-1\nserverId=0\n",
		port, s.opts.tick.Milliseconds(), 2*s.opts.tick.Milliseconds(), 20*s.opts.tick.Milliseconds())
}

// wordOp is the operation's abbreviation in the answer to "cons".
func wordOp(op int32) string {
	switch op {
	case wire.OpConnect:
		return "SESS"
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return "CREA"
	case wire.OpGetChildren2:
		return "GETC"
	case wire.OpSetWatches2:
		return "STW2"
	case wire.OpMultiRead:
		return "MLTR"
	case wire.OpWhoAmI:
		return "HOMI"
	case wire.OpGetAllChildrenNumber:
		return "GETACN"
	case wire.OpCheckWatches:
		return "CHKW"
	}
	name := strings.ToUpper(wire.OpName(op))
	return name[:min(4, len(name))]
}
