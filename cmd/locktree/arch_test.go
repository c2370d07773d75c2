package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/locktree/locktree"

// The rules below share these groups. Each lists a package and all that it links, in the order of the compiler: a lower one never sees a
// higher one.
var (
	sessions = []string{"recipes/internal/session", "recipes/internal/session/wire", "recipes/internal/session/sasl", "recipes/internal/session/servers", "recipes/internal/session/clock", "recipes/internal/session/identity", "recipes/internal/session/journal", "recipes/internal/errs", "recipes/internal/paths", "recipes/internal/seam", "github.com/go-zookeeper/zk"}
	nodes    = with(sessions, "recipes/internal/retry", "recipes/internal/znode", "recipes/kind", "recipes/kind/slots")
	looks    = with(sessions, "recipes/kind", "recipes/kind/slots", "recipes/inspect/internal/evidence", "recipes/inspect/internal/family", "recipes/inspect/internal/node", "recipes/inspect")
	snaps    = with(looks, "recipes/inspect/internal/moment", "recipes/inspect/words", "recipes/inspect/scan")
	library  = with(nodes, "recipes", "recipes/direct", "recipes/inspect/internal/evidence", "recipes/inspect/internal/family", "recipes/inspect/internal/node", "recipes/inspect", "recipes/internal/turn", "recipes/internal/declare", "recipes/internal/wait", "recipes/internal/held", "recipes/internal/lock")
	logins   = with(library, "recipes/kerberos", "github.com/jcmturner/", "github.com/hashicorp/go-uuid", "golang.org/x/crypto", "golang.org/x/net")
	server   = []string{"recipes/zktest", "recipes/zktest/internal/digestmd5", "recipes/zktest/internal/outbox", "recipes/zktest/internal/pipe", "recipes/zktest/internal/release",
		"recipes/zktest/internal/store", "recipes/zktest/internal/watch", "recipes/zktest/internal/wire", "recipes/zktest/internal/words"}
	planner  = []string{"plan", "plan/explain", "plan/problem", "plan/document", "plan/record", "recipes/internal/paths", "recipes/kind", "recipes/kind/slots", "github.com/go-zookeeper/zk", "github.com/agext/levenshtein"}
	differ   = with(planner, "plan/diff/access", "plan/tx", "plan/diff")
	language = []string{"github.com/hashicorp/", "github.com/zclconf/go-cty", "github.com/apparentlymart/go-textseg", "github.com/mitchellh/go-wordwrap"}
	files    = with(planner, with(language, "golang.org/x/text", "config/internal/syntax")...)
	values   = with(logins, slices.Concat(files, []string{"config/internal/forms", "config/internal/functions", "config/internal/static", "config/internal/eval", "github.com/robfig/cron"})...)
	front    = with(values, "config", "github.com/google/go-cmp")
	held     = with(library, with(differ, "apply/failure", "apply/internal/refusal", "apply/read", "golang.org/x/sync", "apply/history", "apply/event", "apply/internal/wire", "apply/internal/lock")...)
	engine   = with(library, with(differ, "recipes/inspect/internal/moment", "recipes/inspect/words", "recipes/inspect/scan", "apply", "apply/failure", "apply/internal/refusal", "apply/read", "golang.org/x/sync", "apply/history", "apply/event", "apply/internal/wire", "apply/internal/lock", "apply/internal/prepare", "apply/internal/commit", "apply/internal/lists")...)
	rendered = with(library, with(planner, with(language, "plan/diff/access", "plan/tx", "apply/failure", "cmd/locktree/internal/view", "golang.org/x/")...)...)
	viewed   = with(library, with(differ, with(rendered, "recipes/inspect/internal/moment", "recipes/inspect/words", "recipes/inspect/scan", "recipes/inspect/check", "apply/internal/refusal", "apply/internal/wire", "apply/read", "apply/history", "apply/evict", "apply/checkup", "cmd/locktree/internal/view/lockview")...)...)
	stacks   = with(viewed, slices.Concat(front, []string{"plan/saved", "cmd/locktree/internal/stack", "cmd/locktree/internal/exit", "cmd/locktree/internal/child", "cmd/locktree/internal/look"})...)
	planned  = []string{"apply/event", "cmd/locktree/internal/view/planview"}
	paged    = []string{"go.yaml.in/yaml", "github.com/prometheus/", "github.com/beorn7/perks", "github.com/cespare/xxhash",
		"github.com/coreos/go-systemd", "github.com/golang-jwt/jwt", "github.com/google/uuid", "github.com/jpillora/backoff", "github.com/mdlayher/", "github.com/munnerz/goautoneg",
		"github.com/mwitkow/go-conntrack", "google.golang.org/protobuf/"}
)

func with(group []string, more ...string) []string { return slices.Concat(group, more) }

// importRules say which packages a package may link, directly or not, and why. They are the architecture: the commit that changes one
// argues for the change.
var importRules = []struct {
	pkg    string
	may    []string // module-relative packages and external modules; the standard library is always allowed
	reason string
}{
	{"recipes/kind/slots", nil, "when a job is due, and what its record says, are values: neither a clock nor a node is read"},
	{"recipes/kind", []string{"recipes/internal/paths", "recipes/kind/slots"},
		"what a recipe type is must be readable by everyone, so it depends on no one; package paths knows which characters no path may have"},
	{"recipes/internal/paths", nil, "the rules for paths are a table of characters: whoever names a node, with or without a session, asks it"},
	{"recipes/internal/seam", nil, "tests stop an acquisition where a name stands in it"},
	{"recipes/internal/errs", nil, "how an error begins is a rule about texts"},
	{"recipes/internal/session/wire", []string{"github.com/go-zookeeper/zk"},
		"bytes in, values out: whatever a server sends is decoded without a connection or a session, so it can be fuzzed alone"},
	{"recipes/internal/session/sasl", []string{"recipes/internal/session/wire", "recipes/internal/errs", "github.com/go-zookeeper/zk"},
		"a login is a conversation over a connection that somebody has dialled"},
	{"recipes/internal/session/servers", nil,
		"which server is next is decided from names and failures: whoever dials it brings the network and the log"},
	{"recipes/internal/session/journal", nil, "log lines are written for whoever holds locks, and know nothing of them"},
	{"recipes/internal/session/clock", nil, "a moment is two readings, and a time of a session is a fraction of its timeout"},
	{"recipes/internal/session/identity", nil, "an identity follows from a certificate or a password alone"},
	{"recipes/internal/session", sessions,
		"a session that can be believed knows no lock: what a lock makes of it cannot reach down into its proofs"},
	{"recipes/internal/retry", []string{"recipes/internal/errs"}, "a loop with pauses sends nothing: whoever calls it judges the errors"},
	{"recipes/internal/znode", nodes,
		"our nodes are created, found again after a lost reply and deleted for certain, whatever they are for"},
	{"recipes/internal/turn", []string{"recipes/internal/paths", "recipes/kind", "recipes/kind/slots"},
		"the goroutines of one client take turns without ZooKeeper, so their order can be tested without a server"},
	{"recipes/internal/declare", with(nodes, "recipes/internal/declare"),
		"a declaration is read before there is a queue: it knows nodes and kinds, and nothing of waiting"},
	{"recipes/internal/wait", with(nodes, "recipes/internal/wait", "recipes/internal/declare"),
		"a waiter decides, waits and proves its grant; it cannot end a lock that is held"},
	{"recipes/internal/held", with(nodes, "recipes/internal/held"),
		"a granted lock ends by itself: it knows no queue, no declaration and no turn"},
	{"recipes/internal/lock", with(nodes, "recipes/internal/lock", "recipes/internal/turn", "recipes/internal/declare", "recipes/internal/wait", "recipes/internal/held"),
		"one acquisition joins the packages below it; handles, options and events of the caller reach it as values and callbacks"},
	{"recipes/inspect/internal/evidence", []string{"recipes/internal/paths", "recipes/kind", "recipes/kind/slots"},
		"what a node is follows from names and data: the caller reads them"},
	{"recipes/inspect/internal/moment", nil, "transactions are dated from numbers and times alone"},
	{"recipes/inspect/internal/family", with(sessions, "recipes/kind", "recipes/kind/slots", "recipes/inspect/internal/family"),
		"which node belongs to which key is a rule of the declaration: what stands in the node is read above it"},
	{"recipes/inspect/internal/node", with(sessions, "recipes/kind", "recipes/kind/slots", "recipes/inspect/internal/evidence", "recipes/inspect/internal/node"),
		"one node is read and recognised: a look at one lock, a scan and a survey share that and nothing above it"},
	{"recipes/inspect", looks,
		"what only looks cannot take a lock; the recipes stand above it because who holds a lock, in their errors, is what it reads"},
	{"recipes/direct", with(sessions, "recipes/direct"),
		"operations of a program's own know no lock; recipes hands its sessions to them"},
	{"recipes/inspect/words", with(sessions, "recipes/kind", "recipes/kind/slots", "recipes/inspect/internal/evidence", "recipes/inspect/words"),
		"what the servers say of themselves and of sessions is known without reading a lock"},
	{"recipes/inspect/scan", snaps,
		"a scan shows the reports of package inspect and the answers of package words; it judges no condition and knows no survey"},
	{"recipes/inspect/survey", with(looks, "recipes/inspect/survey"),
		"a survey looks once at what nobody declared, and needs neither the servers' words nor what a scanner remembers"},
	{"recipes/inspect/check", with(snaps, "recipes/inspect/check"),
		"a condition is judged from a snapshot or by a few questions: the library links neither"},
	{"recipes", library,
		"a program that imports the library downloads one module more and links no configuration language"},
	{"recipes/once", with(library, "recipes/once"),
		"a job that runs once stands on the exported names of recipes: nothing of the library's core calls it"},
	{"recipes/kerberos", logins,
		"Kerberos is one library, without a release since 2023, behind one package: who does not import that neither links nor downloads it"},
	{"recipes/zktest/internal/wire", nil,
		"the server's codec shares nothing with the client's: two that were written apart find each other's mistakes"},
	{"recipes/zktest/internal/store", []string{"recipes/zktest/internal/wire"},
		"the tree is a state machine: it speaks the protocol's words for codes, access lists and Stats, and of frames and connections it knows nothing"},
	{"recipes/zktest/internal/watch", []string{"recipes/zktest/internal/store", "recipes/zktest/internal/wire"},
		"who watches what is a table: what is sent, and when, is the server's business"},
	{"recipes/zktest/internal/words", []string{"recipes/zktest/internal/store", "recipes/zktest/internal/wire"},
		"the words are a text about a status, and cannot change the server"},
	{"recipes/zktest/internal/digestmd5", nil, "a login is a conversation, and knows no connection"},
	{"recipes/zktest/internal/outbox", nil, "frames are sent in order and when they are due, with the clock and the connection of the caller"},
	{"recipes/zktest/internal/pipe", nil, "a connection in the process is a net.Conn, and knows no server"},
	{"recipes/zktest/internal/release", nil, "which release does what is a table"},
	{"recipes/zktest", server,
		"tests of other projects import it, and it can tell on the client only if it shares nothing with it"},
	{"recipes/recipetest", with(library, with(server, "recipes/recipetest")...),
		"tests of programs that use the library import it: it brings no configuration language, and no more than the library does"},
	{"plan/problem", nil, "the codes of problems are an interface, and nothing that finds one"},
	{"plan/explain", []string{"recipes/internal/paths", "recipes/kind", "recipes/kind/slots", "github.com/agext/levenshtein"},
		"how an error is worded for a person is a rule about texts: it needs no plan"},
	{"plan/document", planner,
		"a document is made of a plan or a tree alone: it has what a plan and a command print in common"},
	{"plan/record", []string{"recipes/internal/paths", "recipes/kind", "recipes/kind/slots"},
		"what .locktree and the marks say is bytes and values: it names nodes by path, payload and list, so that a read and a plan ask it alike"},
	{"plan", planner,
		"a plan is data, and questions that it answers itself: a view, a file and an apply have it without the rules by which it was made"},
	{"plan/diff/access", with(planner, "plan/diff/access"),
		"who may do what follows from lists and identities: what becomes of the nodes is decided above it, and reaches it as a plan"},
	{"plan/tx", with(planner, "plan/diff/access", "plan/tx"),
		"transactions follow from a plan alone, so that their number is known before an apply; a node that others may create is named in the record, which access knows"},
	{"plan/diff", differ,
		"a plan is a pure function of two trees: it can be fuzzed, and a view cannot make it talk to a server"},
	{"plan/saved", with(differ, "plan/saved"),
		"a file holds a question, and what answers it is the planner alone"},
	{"config/internal/syntax", files,
		"files become blocks by tables: what a block declares, and what a value is, is decided by those who read blocks"},
	{"config/internal/functions", with(files, "config/internal/functions"),
		"a function has its arguments, the environment and the directory that it is given: no declaration, and no value of another one"},
	{"config/internal/static", with(files, "config/internal/static", "config/internal/functions"),
		"names and references are resolved before anything has a value; of the functions it takes the mark of what is sensitive"},
	{"config/internal/forms", with(files, "config/internal/forms", "github.com/robfig/cron"),
		"the form of a text is a rule about that text: it needs no declaration and no other value"},
	{"config/internal/eval", values,
		"values come from declarations and inputs; it links the library, and Kerberos, for the types of identities alone"},
	{"config", front,
		"the language is one front end onto the plan: it links the library, and Kerberos, only to hand an ensemble to it as a client, complete, and reads no server"},
	{"config/adopt", with(front, "config/adopt"),
		"configuration for znodes that exist follows from what a caller found and from what is declared"},
	{"config/generate", with(values, "config/generate"),
		"code is made of what the configuration says, and of nothing that a server, a plan or the command knows"},
	{"apply/failure", with(library, with(differ, "apply/failure")...),
		"an error is a value with its sentences: it reads no tree and knows no phase of an apply, so each phase can return it"},
	{"apply/internal/refusal", with(library, with(differ, "apply/failure", "apply/internal/refusal")...),
		"the answers of servers become errors in one place, below every phase that gets such an answer"},
	{"apply/internal/wire", with(library, with(differ, "apply/internal/wire")...),
		"values are translated for the client in one place, by whoever sends them"},
	{"apply/read", with(library, with(differ, "apply/read", "golang.org/x/sync", "apply/failure", "apply/internal/refusal", "apply/internal/wire")...),
		"what reads the tree knows neither the apply lock nor a transaction: whatever it returns, nothing was written"},
	{"apply/history", with(library, with(differ, "apply/history", "apply/failure", "apply/internal/refusal")...),
		"the history is one node and its entries: whoever writes it, an apply or an eviction, sends it in a transaction of its own"},
	{"apply/event", with(library, with(differ, "apply/event", "apply/history", "apply/failure", "apply/internal/refusal")...),
		"events are values that each phase of an apply may emit, so they stand below all of them"},
	{"apply/internal/lock", held,
		"the apply lock, and single writes under it, know no phase of an apply: each of these is handed the lock"},
	{"apply/internal/prepare", with(held, "apply/internal/prepare"),
		"what makes the tree ready sends nothing of the plan"},
	{"apply/internal/commit", with(held, "apply/internal/commit"),
		"a transaction and its outcome: what was prepared before, and which lists follow, reach it as values"},
	{"apply/internal/lists", with(held, "apply/internal/lists"),
		"the passes over the access lists begin from what the last transaction wrote, and cannot send another"},
	{"apply/evict", with(library, with(differ, "recipes/inspect/internal/moment", "recipes/inspect/words", "recipes/inspect/scan", "apply/evict", "apply/history", "apply/failure", "apply/internal/refusal", "apply/internal/wire")...),
		"an eviction knows no plan and no apply lock: it works while an apply is under way"},
	{"apply/checkup", with(library, with(differ, "recipes/inspect/internal/moment", "recipes/inspect/words", "recipes/inspect/scan", "recipes/inspect/check", "apply/checkup", "apply/read", "golang.org/x/sync", "apply/failure", "apply/internal/refusal", "apply/internal/wire")...),
		"a checkup only looks: it links nothing that writes"},
	{"apply", engine,
		"the engine returns values and events; what language declared the tree and who looks on is not its business"},
	{"cmd/locktree/internal/child", []string{"golang.org/x/sys"}, "a child process is run and ended, whatever it is for"},
	{"cmd/locktree/internal/demo", with(library, with(server, "examples", "cmd/locktree/internal/demo", "cmd/locktree/internal/exit", "cmd/locktree/internal/child", "golang.org/x/sys")...),
		"the demo runs commands that it is given: it knows their lines, and no configuration"},
	{"cmd/locktree/internal/exit", []string{"cmd/locktree/internal/exit", "cmd/locktree/internal/child", "golang.org/x/sys"},
		"exit codes are an interface: a command, and what it calls, return them and end no process"},
	{"cmd/locktree/internal/help", with(rendered, "cmd/locktree/internal/help", "cmd/locktree/internal/exit", "cmd/locktree/internal/child", "github.com/spf13/"),
		"the help describes commands as values of cobra: it runs none"},
	{"cmd/locktree/internal/look", with(library, "cmd/locktree/internal/look"),
		"a look needs a client and nothing of what is looked at"},
	{"cmd/locktree/internal/stack", stacks,
		"a stack is loaded, dialled and read before a command shows or applies it: it knows no command and no page"},
	{"cmd/locktree/internal/disk", with(stacks, "cmd/locktree/internal/disk"),
		"a file is replaced whole or not at all, whatever is in it"},
	{"cmd/locktree/internal/live", with(stacks, with(planned, "cmd/locktree/internal/screen", "cmd/locktree/internal/live")...),
		"what exists is read and shown: it is neither loaded nor changed here"},
	{"cmd/locktree/internal/starter", with(stacks, "cmd/locktree/internal/disk", "cmd/locktree/internal/starter"),
		"the first configuration is text: it is written, loaded and tried here, and not applied"},
	{"cmd/locktree/internal/screen", with(stacks, "cmd/locktree/internal/screen"),
		"a run shows, asks and is interrupted in one way: which command shows or asks does not matter"},
	{"cmd/locktree/internal/takeover", with(engine, with(stacks, with(planned, "config/adopt", "recipes/inspect/survey", "cmd/locktree/internal/change", "cmd/locktree/internal/screen", "cmd/locktree/internal/disk", "cmd/locktree/internal/takeover")...)...),
		"locks of others become a plan or a file: the rest is package change's"},
	{"cmd/locktree/internal/change", with(engine, with(stacks, with(planned, "cmd/locktree/internal/disk", "cmd/locktree/internal/change")...)...),
		"an apply is shown, approved and carried out for a host: which flags and which command asked for it does not matter"},
	{"cmd/locktree/internal/run", with(stacks, "recipes/once", "cmd/locktree/internal/run"),
		"a command runs under locks that a stack names: it needs no plan and no apply"},
	{"cmd/locktree/internal/view", rendered,
		"an output, a table and an error have one form, whatever they are about: of a plan and of a lock only the errors are known here"},
	{"cmd/locktree/internal/view/planview", with(rendered, "cmd/locktree/internal/view/planview", "apply/event", "apply/history", "apply/internal/refusal"),
		"a view of a plan and of its apply renders values: it can neither make a plan nor look at a lock"},
	{"cmd/locktree/internal/view/lockview", with(rendered, "recipes/inspect/internal/moment", "recipes/inspect/words", "recipes/inspect/scan", "recipes/inspect/check", "cmd/locktree/internal/view/lockview", "apply/checkup", "apply/evict", "apply/history", "apply/read", "golang.org/x/sync", "apply/internal/refusal", "apply/internal/wire"),
		"a view of locks renders values: it can neither apply a plan nor load a configuration"},
	{"cmd/locktree/internal/page", with(viewed, slices.Concat(planned, paged, []string{"cmd/locktree/internal/page", "cmd/locktree/internal/look"})...),
		"the page renders values; exporter-toolkit reads its web configuration, encrypts and asks for passwords, the bound on connections is that of golang.org/x/net, the rest is the standard library"},
	{"cmd/locktree/internal/follow", with(stacks, slices.Concat(planned, paged, []string{"cmd/locktree/internal/page", "cmd/locktree/internal/screen", "cmd/locktree/internal/follow"})...),
		"locks are read again and again, for a page or a terminal: it applies nothing and takes no lock"},
}

// unruled matches the command, the examples and the packages that only tests link.
var unruled = regexp.MustCompile(`^(cmd/locktree|examples(/.*)?|recipes/internal/(ensemble|harness|hostile|interop|zoo)|recipes/zktest/(conformance|effort|foreign|kdc|realzk(/share)?))$`)

// forbiddenDirect lists direct imports that a rule's "may" allows and its reason does not.
var forbiddenDirect = []struct {
	pkg, imports, reason string
}{
	{"plan", "net", "the planner reads no network"},
	{"recipes/zktest/internal/store", "time", "the store has no clock"},
	{"recipes/zktest/internal/store", "sync", "the store has no lock: it does not wait"},
	{"recipes/zktest/internal/wire", "net", "a codec has no connection"},
	{"plan", "os", "the planner touches no file"},
	{"plan/diff", "net", "the planner reads no network"},
	{"plan/diff", "os", "the planner touches no file"},
	{"plan/saved", "os", "where a file is kept, and who may read it, is its owner's business"},
	{"cmd/locktree/internal/page", "github.com/go-zookeeper/zk", "the page has snapshots to show, and the loop looks through package inspect: neither speaks to a server itself"},
	{"cmd/locktree/internal/view", "github.com/go-zookeeper/zk", "a view shows what the plan and the events say, in their words"},
	{"cmd/locktree/internal/view/planview", "github.com/go-zookeeper/zk", "a view shows what the plan and the events say, in their words"},
	{"cmd/locktree/internal/view/lockview", "github.com/go-zookeeper/zk", "a view shows what was read, in the words of package inspect"},
	{"config", "github.com/go-zookeeper/zk", "configuration errors are about the configuration"},
}

type listedPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

func TestImportRules(t *testing.T) {
	all := listPackages(t)
	ruled := map[string]bool{}
	for _, rule := range importRules {
		ruled[module+"/"+rule.pkg] = true
		p, ok := all[module+"/"+rule.pkg]
		require.True(t, ok, "package %s of the design does not exist", rule.pkg)
		for _, dep := range p.Deps {
			if d, known := all[dep]; known && d.Standard || allowed(dep, rule.may) {
				continue
			}
			t.Errorf("%s links %s, which it may not: %s", rule.pkg, dep, rule.reason)
		}
	}
	for path := range all {
		if rel, ours := strings.CutPrefix(path, module+"/"); ours && !ruled[path] && !unruled.MatchString(rel) {
			t.Errorf("%s has no rule: say in importRules what it may link, and why", rel)
		}
	}
	for _, rule := range forbiddenDirect {
		for _, imp := range all[module+"/"+rule.pkg].Imports {
			if imp == rule.imports || strings.HasPrefix(imp, rule.imports+"/") {
				t.Errorf("%s imports %s: %s", rule.pkg, imp, rule.reason)
			}
		}
	}
}

// Two plans of the same trees are equal, whenever they are made. The planner may use durations, but no clock.
func TestThePlannerReadsNoClock(t *testing.T) {
	for _, file := range sourceFiles(t, "../../plan/*.go", "../../plan/*/*.go", "../../plan/*/*/*.go") {
		require.NotRegexp(t, `\btime\.(Now|Since|Until|After|Sleep|Tick|New)`, sourceOf(t, file), file)
	}
}

// Names that say nothing invite a second way to do one thing, and a top-level internal is where such packages hide.
func TestNoShapelessPackages(t *testing.T) {
	for path := range listPackages(t) {
		rel, ours := strings.CutPrefix(path, module+"/")
		if !ours {
			continue
		}
		require.False(t, strings.HasPrefix(rel, "internal/"), "top-level internal: %s", rel)
		for _, part := range strings.Split(rel, "/") {
			require.NotContains(t, []string{"util", "utils", "common", "helpers", "types", "misc"}, part, rel)
		}
	}
}

// foreign are fields whose text others write: in ZooKeeper, in files, on the command line, in the environment.
var foreign = []string{"Addr", "Address", "Addresses", "Block", "Description", "Detail", "Ensemble", "Error", "Filename", "Holder", "ID", "Key", "Lock", "Name", "Owner", "Path",
	"Paths", "Root", "Servers", "Stack", "Subject", "Who"}

// visible are the functions that make foreign text safe to print, or quote it.
var visible = []string{"Brief", "CleanLines", "KeyName", "Line", "Unasked", "Visible", "Who", "Err", "Cell", "Clean", "Quote", "declaredAs", "header", "len", "who"}

// File names, node names and error messages were printed unescaped, so they wrote lines that a CI runner obeys.
func TestNothingForeignIsPrintedAsItIs(t *testing.T) {
	files := token.NewFileSet()
	for _, name := range sourceFiles(t, "*.go", "internal/*/*.go", "internal/view/*/*.go") {
		file, err := parser.ParseFile(files, name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.Contains([]string{"Fprint", "Fprintf", "Fprintln", "Message", "WriteString", "Printf", "printf"}, lastName(called(call.Fun))) {
				return true
			}
			var verbs []string
			for i, arg := range call.Args {
				if format, ok := arg.(*ast.BasicLit); ok && verbs == nil {
					verbs = append(make([]string, i+1), formatVerbs.FindAllString(format.Value, -1)...)
				}
				if i < len(verbs) && slices.Contains([]string{"%q", "%t", "%d"}, verbs[i]) {
					continue
				}
				var look func(n ast.Node) bool
				look = func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.FuncLit: // its calls are checked separately
						ast.Inspect(n.Body, func(n ast.Node) bool {
							if result, ok := n.(*ast.ReturnStmt); ok {
								ast.Inspect(result, look)
							}
							return true
						})
						return false
					case *ast.CallExpr:
						return !slices.Contains(visible, lastName(called(n.Fun)))
					case *ast.SelectorExpr:
						if slices.Contains(foreign, n.Sel.Name) {
							t.Errorf("%s: %s is printed as it is: give it to view.Clean, view.Cell, view.Quote or kind.Visible", files.Position(n.Pos()), n.Sel.Name)
						}
					}
					return true
				}
				ast.Inspect(arg, look)
			}
			return true
		})
	}
}

func allowed(dep string, may []string) bool {
	for _, m := range may {
		full := m
		if !strings.Contains(strings.SplitN(m, "/", 2)[0], ".") {
			full = module + "/" + m
		}
		if dep == full || strings.HasPrefix(dep, strings.TrimSuffix(full, "/")+"/") && !strings.HasPrefix(dep, module) {
			return true
		}
	}
	return false
}

func listPackages(t *testing.T) map[string]listedPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"/...").Output()
	require.NoError(t, err)
	all := map[string]listedPackage{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listedPackage
		require.NoError(t, dec.Decode(&p))
		all[p.ImportPath] = p
	}
	return all
}
