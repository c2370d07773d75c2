// Package words answers the four-letter words: administrators use them to ask a ZooKeeper server about its state.
package words

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Server has the state of a server that the words report.
type Server struct {
	Version        fmt.Stringer
	ReadOnly       bool
	Uptime, Tick   time.Duration
	Address        string // host:port, "" if the server does not listen
	Zxid           int64
	Tree           *store.Tree
	Received, Sent int // packets
	Watches        int // the number of watches of all kinds
	Connections    []Connection
	Sessions       []Session // by id
}

// Connection is one connection. Server.Connections has the connections in the order of their age.
type Connection struct {
	Remote                 string
	Session                int64
	Queued, Received, Sent int      // numbers of packets; Queued counts those that wait because of a fault
	DataWatches            []string // paths, in order
	*Details                        // nil without a session
}

// Details are the further fields of a connection that cons reports.
type Details struct {
	LastOp, LastXid int32
	Since           time.Time
	Timeout         time.Duration
}

// Session is one session.
type Session struct {
	ID       int64
	Deadline time.Time
}

// words are the four-letter words of a ZooKeeper server; nil for those that this server does not answer.
var words = map[string]func(Server, *strings.Builder){
	"ruok": func(_ Server, b *strings.Builder) { b.WriteString("imok") },
	"isro": func(s Server, b *strings.Builder) {
		if s.ReadOnly {
			b.WriteString("ro")
		} else {
			b.WriteString("rw")
		}
	},
	"srvr": func(s Server, b *strings.Builder) { s.statWord(b, false) },
	"stat": func(s Server, b *strings.Builder) { s.statWord(b, true) },
	"mntr": Server.wordMntr,
	"cons": func(s Server, b *strings.Builder) { s.listConns(b, true) },
	"dump": Server.wordDump,
	"wchs": Server.wordWchs,
	"wchp": Server.wordWchp,
	"wchc": Server.wordWchc,
	"conf": Server.wordConf,
	"envi": Server.wordEnvi,
	"crst": func(_ Server, b *strings.Builder) { b.WriteString("Connection stats reset.\n") },
	"srst": func(_ Server, b *strings.Builder) { b.WriteString("Server stats reset.\n") },
	"dirs": nil, "gtmk": nil, "hash": nil, "icfg": nil, "lead": nil, "obsr": nil, "orst": nil, "stmk": nil, "sysp": nil,
}

// Known reports whether four bytes are a word, and not the length of a connect request. It includes words without an answer here: ZooKeeper
// knows these words too, and does not wait for a frame of that length.
func Known(word string) bool {
	_, ok := words[word]
	return ok
}

// Answer is the answer to a word. ZooKeeper closes the connection after it. Words without an answer here get the answer that ZooKeeper
// gives to words outside its whitelist. The counts belong to the caller, so the caller resets them for crst and srst.
func Answer(word string, allowed bool, s Server) string {
	var b strings.Builder
	if f := words[word]; f != nil && allowed {
		f(s, &b)
	} else {
		fmt.Fprintf(&b, "%s is not executed because it is not in the whitelist.\n", word)
	}
	return b.String()
}

func (s Server) mode() string {
	if s.ReadOnly {
		return "read-only"
	}
	return "standalone"
}

// znodes counts the nodes as ZooKeeper does, which stores the root under two names.
func (s Server) znodes() int { return s.Tree.Len() + 1 }

func (s Server) statWord(b *strings.Builder, clients bool) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", s.Version)
	if s.ReadOnly {
		b.WriteString("READ-ONLY mode; serving only read-only clients\n")
	}
	if clients {
		b.WriteString("Clients:\n")
		s.listConns(b, false)
	}
	fmt.Fprintf(b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
		s.Received, s.Sent, len(s.Connections), s.countOutstanding())
	fmt.Fprintf(b, "Zxid: 0x%x\nMode: %s\nNode count: %d\n", s.Zxid, s.mode(), s.znodes())
}

// countOutstanding counts the requests that have arrived and are not executed because a fault holds them.
func (s Server) countOutstanding() int {
	n := 0
	for _, c := range s.Connections {
		n += c.Queued
	}
	return n
}

// wordMntr reports the gauges that mean something here, under ZooKeeper's names. Its hundreds of processing metrics have no counterpart.
func (s Server) wordMntr(b *strings.Builder) {
	ephemerals := 0
	for _, id := range s.Tree.Owners() {
		ephemerals += len(s.Tree.Owned(id))
	}
	for _, m := range []struct {
		key   string
		value any
	}{
		{"version", s.Version}, {"server_state", s.mode()}, {"ephemerals_count", ephemerals},
		{"num_alive_connections", len(s.Connections)}, {"avg_latency", "0.0"}, {"outstanding_requests", s.countOutstanding()},
		{"znode_count", s.znodes()}, {"global_sessions", len(s.Sessions)}, {"packets_sent", s.Sent},
		{"packets_received", s.Received}, {"watch_count", s.Watches},
		{"min_latency", 0}, {"approximate_data_size", s.Tree.Bytes()}, {"local_sessions", 0},
		{"uptime", s.Uptime.Milliseconds()}, {"max_latency", 0},
	} {
		fmt.Fprintf(b, "zk_%s\t%v\n", m.key, m.value)
	}
}

// listConns writes one line per connection; details exist only with a session.
func (s Server) listConns(b *strings.Builder, details bool) {
	for _, c := range s.Connections {
		fmt.Fprintf(b, " %s[%d](queued=%d,recved=%d,sent=%d", c.Remote, min(c.Sent, 1), c.Queued, c.Received, c.Sent)
		if details && c.Details != nil {
			fmt.Fprintf(b, ",sid=0x%x,lop=%s,est=%d,to=%d,lcxid=0x%x,lzxid=0x%x,lresp=%d,llat=0,minlat=0,avglat=0,maxlat=0",
				c.Session, wordOp(c.LastOp), c.Since.UnixMilli(), c.Timeout.Milliseconds(), uint32(c.LastXid), s.Zxid, s.Uptime.Milliseconds())
		}
		b.WriteString(")\n")
	}
	b.WriteString("\n")
}

// wordDump lists sessions by the time when they are due to expire. Sessions of one tick expire together, so their deadlines are equal to
// the nanosecond.
func (s Server) wordDump(b *strings.Builder) {
	buckets := map[time.Time][]int64{}
	for _, x := range s.Sessions {
		buckets[x.Deadline] = append(buckets[x.Deadline], x.ID)
	}
	fmt.Fprintf(b, "SessionTracker dump:\nSession Sets (%d)/(%d):\n", len(buckets), len(s.Sessions))
	for _, at := range slices.SortedFunc(maps.Keys(buckets), time.Time.Compare) {
		fmt.Fprintf(b, "%d expire at %s:\n", len(buckets[at]), at.UTC().Format(time.UnixDate))
		for _, id := range buckets[at] {
			fmt.Fprintf(b, "\t0x%x\n", id)
		}
	}
	fmt.Fprintf(b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(s.Tree.Owners()))
	for _, id := range s.Tree.Owners() {
		fmt.Fprintf(b, "0x%x:\n", id)
		for _, path := range s.Tree.Owned(id) {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	fmt.Fprintf(b, "Connections dump:\nConnections Sets (1)/(%d):\n", len(s.Connections))
	for _, c := range s.Connections {
		fmt.Fprintf(b, "\tip: %s sessionId: 0x%x\n", c.Remote, c.Session)
	}
}

// The watch words count data watches only, as ZooKeeper's do.
func (s Server) wordWchs(b *strings.Builder) {
	watchers, total := 0, 0
	for _, c := range s.Connections {
		watchers += min(len(c.DataWatches), 1)
		total += len(c.DataWatches)
	}
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", watchers, len(s.byPath()), total)
}

// byPath returns the sessions that watch each path.
func (s Server) byPath() map[string][]int64 {
	out := map[string][]int64{}
	for _, c := range s.Connections {
		for _, path := range c.DataWatches {
			out[path] = append(out[path], c.Session)
		}
	}
	return out
}

func (s Server) wordWchp(b *strings.Builder) {
	paths := s.byPath()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		fmt.Fprintf(b, "%s\n", path)
		for _, session := range paths[path] {
			fmt.Fprintf(b, "\t0x%x\n", session)
		}
	}
	b.WriteString("\n")
}

// wordWchc is wordWchp grouped by session.
func (s Server) wordWchc(b *strings.Builder) {
	for _, c := range s.Connections {
		for i, path := range c.DataWatches {
			if i == 0 {
				fmt.Fprintf(b, "0x%x\n", c.Session)
			}
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	b.WriteString("\n")
}

// wordEnvi writes a Java program's keys, empty except for the server's version, which clients look for.
func (s Server) wordEnvi(b *strings.Builder) {
	fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\nhost.name=localhost\n", s.Version)
	for _, key := range []string{
		"java.version", "java.vendor", "java.home", "java.class.path", "java.library.path", "java.io.tmpdir", "java.compiler",
		"os.name", "os.arch", "os.version", "user.name", "user.home", "user.dir", "os.memory.free", "os.memory.max", "os.memory.total",
	} {
		fmt.Fprintf(b, "%s=\n", key)
	}
}

func (s Server) wordConf(b *strings.Builder) {
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		port = "-1"
	}
	fmt.Fprintf(b, "clientPort=%s\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\n"+
		"tickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nclientPortListenBacklog=-1\nserverId=0\n",
		port, s.Tick.Milliseconds(), 2*s.Tick.Milliseconds(), 20*s.Tick.Milliseconds())
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
