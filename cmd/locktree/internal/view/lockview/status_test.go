package lockview_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

func TestStatus(t *testing.T) {
	differs := &plan.Plan{}
	for _, action := range []plan.Action{plan.Create, plan.Update, plan.Update, plan.Delete, plan.Replace, plan.Replace} {
		differs.Changes = append(differs.Changes, plan.Change{Action: action, Addr: "mutex.a", Path: "/a", Kind: kind.Mutex})
	}
	s := lockview.Status{Trees: []*plan.Tree{liveTree(), {Ensemble: "spare", Root: "/", Stack: "payments-prod"}}, Declared: []*plan.Tree{{}, {}}, Servers: []string{"zk1:2181,zk2:2181", "zk9:2181"},
		Drift: []*plan.Plan{differs, {}}, NowMs: now}
	golden(t, "status.txt", text(s))
	golden(t, "status.json", document(t, s))
}

// A lock with a thousand waiters must not fill the screen; one with a thousand foreign nodes did.
func TestStatusCutsLongQueues(t *testing.T) {
	tree := liveTree()
	long := &kind.Usage{}
	for i := range 13 {
		long.Waiters = append(long.Waiters, kind.Party{ID: fmt.Sprintf("worker-%d", i)})
		long.Junk = append(long.Junk, fmt.Sprintf("junk-%d", i))
	}
	tree.Nodes[2].Live.Usage = long
	shown := text(status(tree))
	require.Contains(t, shown, "worker-9")
	require.NotContains(t, shown, "worker-10")
	require.NotContains(t, shown, "junk-10")
	require.Equal(t, 2, strings.Count(shown, "and 3 more"))
	require.Contains(t, shown, "13 waiting.")
}

func TestStatusWarnsOfDeadlocks(t *testing.T) {
	held := func(path, holder, waiter string, sessions ...int64) *plan.Node {
		n := node("mutex."+path[1:], path, kind.Mutex.New())
		n.Live.Usage = &kind.Usage{Holders: []kind.Party{{ID: holder, Session: sessions[0]}}, Waiters: []kind.Party{{ID: waiter, Session: sessions[1]}}}
		return n
	}
	tree := &plan.Tree{Nodes: []*plan.Node{held("/ledger", "A", "B", 1, 2), held("/rates", "B", "A", 2, 1)}}
	require.Contains(t, text(status(tree)), "deadlock: B holds /rates and waits for /ledger; A holds /ledger and waits for /rates\n")
	tree.Nodes = tree.Nodes[:1]
	require.NotContains(t, text(status(tree)), "deadlock")
}

// C1 controls, marks that turn text around and characters without a width stood in JSON as they were.
func TestJSONHasNoInvisibleCharacters(t *testing.T) {
	const hidden = "\u007f\u0085\u009b31m\u200b\u202e\u2066\ufeff\U000e0041\u00a0"
	id := "a" + hidden + "é日\U0001f512\\u0041\"z"
	tree := liveTree()
	tree.Nodes[2].Live.Usage = &kind.Usage{Holders: []kind.Party{{ID: id}}, Junk: []string{id}}
	var out, lines bytes.Buffer
	view.NewDocuments(&out, view.Stream{}, "1.2.3").Show(status(tree))
	view.NewStream(&lines, "1.2.3", time.Now).Message(id)
	raw, err := json.Marshal(id)
	require.NoError(t, err)
	for _, doc := range [][]byte{out.Bytes(), lines.Bytes(), view.VisibleJSON(raw), view.VisibleJSON([]byte("\"\xff\""))} {
		require.NotContains(t, strings.Map(func(r rune) rune {
			if r != '\n' && !unicode.IsPrint(r) {
				return '!'
			}
			return r
		}, strings.ReplaceAll(string(doc), "!", "")), "!")
		require.True(t, utf8.Valid(doc))
	}
	var read struct {
		Ensembles []struct {
			Locks []struct{ Holders []struct{ ID string } }
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, id, read.Ensembles[0].Locks[1].Holders[0].ID, "the value is the same")
	require.Contains(t, out.String(), "é日\U0001f512", "what can be seen stays")
}
