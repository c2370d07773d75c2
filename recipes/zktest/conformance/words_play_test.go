package conformance

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	wordVersion = regexp.MustCompile(`Zookeeper version: .*|zk_version\t.*|(?m:^zookeeper\.version=\d.*)`)
	wordEnv     = regexp.MustCompile(`(?m)^((?:host|java|os|user)\.[a-z.]+)=.*`)
	wordPath    = regexp.MustCompile(`(dataDir|dataLogDir|dataDirSize|dataLogSize)=.*`)
	wordDate    = regexp.MustCompile(`(?m)^\d+ expire at .*:\n`) // by chance, some share a tick
	wordOp      = regexp.MustCompile(`lop=[A-Z]+`)
	wordNumber  = regexp.MustCompile(`0x[0-9a-f]+|-?\d+(\.\d+)*`)
	wordAddress = regexp.MustCompile(`/[#:]+(\[#\])?`)
	wordConns   = regexp.MustCompile(`(?m)(^ /#.*\n)+`)
	wordSockets = regexp.MustCompile(`(?m)(^\tip: .*\n)+`)
)

// shape reduces an answer to the parts that are the same on every server with the same data: the wording and order of lines,
// without numbers, and one line for any number of connections.
func shape(answer string) string {
	answer = wordDate.ReplaceAllString(answer, "")
	answer = wordVersion.ReplaceAllString(answer, "VERSION")
	answer = wordEnv.ReplaceAllString(answer, "$1=")
	answer = wordPath.ReplaceAllString(answer, "$1=")
	answer = wordSockets.ReplaceAllString(answer, "\tSOCKETS\n")
	answer = wordOp.ReplaceAllString(answer, "lop=X")
	answer = wordNumber.ReplaceAllString(answer, "#")
	answer = wordAddress.ReplaceAllString(answer, "/#")
	return wordConns.ReplaceAllString(answer, " CONNECTIONS\n")
}

// Words compares the answers to the four-letter words, by their shape, with those of another server, after the same few requests to both.
// In mntr it only looks for the values that this suite knows, and compares some.
func Words(t *testing.T, got, want Dial) {
	t.Helper()
	for _, dial := range []Dial{got, want} {
		a := newActor(t, dial, "/words")
		a.do(create(0, "/e", 1), 0)
		a.do(get(0, "/e"), 0)
		a.do(get(1, "/e"), 0) // one path only: several are listed in no order
		a.do(list(1, "/e"), 0)
	}
	for _, word := range []string{"ruok", "isro", "srvr", "stat", "dump", "wchs", "wchp", "wchc", "conf", "cons", "envi", "crst", "srst"} {
		g, w := Word(t, got, word), Word(t, want, word)
		if shape(g) != shape(w) {
			t.Errorf("%s answers\n%s\ninstead of\n%s\nin shape\n%s\ninstead of\n%s", word, g, w, shape(g), shape(w))
		}
	}
	g, w := Word(t, got, "mntr"), Word(t, want, "mntr")
	for _, key := range []string{
		"zk_version", "zk_server_state", "zk_ephemerals_count", "zk_num_alive_connections", "zk_avg_latency",
		"zk_outstanding_requests", "zk_znode_count", "zk_global_sessions", "zk_packets_sent", "zk_packets_received",
		"zk_watch_count", "zk_min_latency", "zk_max_latency", "zk_approximate_data_size", "zk_local_sessions", "zk_uptime",
	} {
		if line(g, key) == "" || line(w, key) == "" {
			t.Errorf("mntr does not report %s", key)
		}
	}
	for _, key := range []string{"zk_server_state", "zk_ephemerals_count", "zk_znode_count", "zk_watch_count", "zk_approximate_data_size"} {
		if line(g, key) != line(w, key) {
			t.Errorf("mntr reports %q instead of %q", line(g, key), line(w, key))
		}
	}
}

// line returns the line that begins with the key and a tab, or "".
func line(answer, key string) string {
	lines := strings.Split(answer, "\n")
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+"\t") }); i >= 0 {
		return lines[i]
	}
	return ""
}

// Word asks a server a four-letter word.
func Word(t *testing.T, dial Dial, word string) string {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatalf("%s: %v", word, err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	_, err = io.WriteString(c, word)
	answer, readErr := io.ReadAll(c)
	if err := cmp.Or(err, readErr); err != nil {
		t.Fatalf("%s: %v", word, err)
	}
	return string(answer)
}
