package inspect

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// KeeperStop is what a user of a ClickHouse Keeper has to know.
const KeeperStop = "a Keeper that is stopped in good order ends the sessions of its clients before their connections; in between, for up to a sixth of the session timeout, a lock's holder and the next one may both be believed"

// checkKeeper is Check for a server that is a ClickHouse Keeper. Those of ZooKeeper's conditions that it does not name have no
// counterpart there: a Keeper that has lost its leader commits nothing and answers reads only, and none counts differences of data.
func checkKeeper(ctx context.Context, s *session.Session) []Condition {
	conf, srvr := word(ctx, s, "conf"), word(ctx, s, "srvr")
	flags, _, _ := s.Get(ctx, "/keeper/feature_flags") // older ones have none
	return []Condition{
		keeperItself(srvr, flags), keeperTimeout(s.Timeout(), number(conf, `dead_session_check_period_ms=(\d+)`)),
		keeperWorld(srvr), checkClock(runtime.GOOS),
	}
}

// keeperItself is never more than unsure: see KeeperStop.
func keeperItself(srvr string, flags []byte) Condition {
	k := Condition{Name: "server", Verdict: VerdictUnsure, Why: "no session of a Keeper can be resumed, so a lock is lost with the connection; and " + KeeperStop,
		Next: "let stores compare tokens, or write with Lease.Multi, which refuse in that time; stop Keepers when nothing is held. docs/keeper.md says what is tested"}
	k.What = "it is a ClickHouse Keeper"
	if m := keeperVersionLine.FindStringSubmatch(srvr); m != nil {
		k.What += ", " + kind.Visible(m[1])
	}
	k.What += fmt.Sprintf(", with feature flags %x, of which locktree needs none", flags)
	return k
}

var keeperVersionLine = regexp.MustCompile(`(?m)^ClickHouse Keeper version: (v(\d+)\.(\d+)\S*)`)

// keeperTimeout is checkTimeout where a tick is the time between two looks for sessions to expire.
func keeperTimeout(t time.Duration, period int) Condition {
	if period > 0 {
		return checkTimeout(t, time.Duration(period)*time.Millisecond, "dead_session_check_period_ms")
	}
	return Condition{Name: "session timeout", Verdict: VerdictUnsure, What: fmt.Sprintf("the servers granted %v; how often they look for sessions to expire is not known", t),
		Why:  "a lease lasts half a session timeout; a commit proves that much only where that time is at most a quarter of it",
		Next: "add conf to four_letter_word_allow_list, or make sure that dead_session_check_period_ms is at most " + strconv.FormatInt((t/4).Milliseconds(), 10)}
}

// keeperWorld warns of Keepers that drop entries for everybody from access lists (ClickHouse/ClickHouse#82755).
func keeperWorld(srvr string) Condition {
	k := Condition{Name: "access for everybody", Why: "before 25.7, a Keeper drops entries for world:anyone from an access list, and then a list of nothing else grants everybody everything"}
	m := keeperVersionLine.FindStringSubmatch(srvr)
	if m == nil {
		k.Verdict, k.What, k.Next = VerdictUnsure, "the server does not say its version", "add srvr to four_letter_word_allow_list, or make sure that it is 25.7 or later"
		return k
	}
	major, _ := strconv.Atoi(m[2]) // digits; a number that overflows is a later version
	minor, _ := strconv.Atoi(m[3])
	k.What = "it is " + strings.Join(m[2:4], ".")
	if major < 25 || major == 25 && minor < 7 {
		k.Verdict, k.Next = VerdictUnsure, "grant nothing to everybody, or plan an upgrade to 25.7 or later"
	}
	return k
}
