package view_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// diagnosed evaluates an expression that fails and mentions a sensitive value.
func diagnosed(t *testing.T) (hcl.Diagnostics, map[string]*hcl.File) {
	t.Helper()
	src := []byte("# one\nmutex \"a\" {\n  permits = var.secret + local.n + local.missing\n}\n")
	file, diags := hclsyntax.ParseConfig(src, "x.locktree.hcl", hcl.InitialPos)
	require.False(t, diags.HasErrors())
	expr := file.Body.(*hclsyntax.Body).Blocks[0].Body.Attributes["permits"].Expr
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{
		"var":   cty.ObjectVal(map[string]cty.Value{"secret": cty.StringVal("CANARY").Mark("sensitive")}),
		"local": cty.ObjectVal(map[string]cty.Value{"n": cty.NumberIntVal(7)}),
	}}
	_, diags = expr.Value(ctx)
	require.True(t, diags.HasErrors())
	diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Bad", Detail: "Because.", Subject: expr.Range().Ptr(), Expression: expr, EvalContext: ctx},
		&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Odd", Detail: "Nowhere in particular."})
	return diags, map[string]*hcl.File{"x.locktree.hcl": file}
}

func TestDiagnosticsAreShownAsTextAndAsJSON(t *testing.T) {
	diags, files := diagnosed(t)
	v, out, err := capture()
	v.Show(view.Validation{diags, files})
	golden(t, "invalid.txt", out.String()+err.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "1.2.3").Show(view.Validation{diags, files})
	golden(t, "invalid.json", out.String())
	require.NotContains(t, out.String()+err.String(), "CANARY")

	out.Reset()
	err.Reset()
	v.Show(view.Validation{nil, nil})
	require.Equal(t, "Success! The configuration is valid.\n", out.String())
	require.Empty(t, err.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "1.2.3").Show(view.Validation{nil, nil})
	require.JSONEq(t, `{"format_version":"1.0","valid":true,"error_count":0,"warning_count":0,"diagnostics":[]}`, out.String())
}

func TestTheVersionIsShownAsTextAndAsJSON(t *testing.T) {
	v, out, _ := capture()
	v.Show(view.Version{Version: "1.2.3", Platform: "linux_amd64", Revision: "abc", Modified: true, PayloadFormat: 1})
	require.Equal(t, "locktree v1.2.3\non linux_amd64\nbuilt from abc, changed since\nznode payload format 1\n", out.String())
	out.Reset()
	view.NewDocuments(out, view.Stream{}, "").Show(view.Version{Version: "1.2.3", Platform: "linux_amd64", PayloadFormat: 1})
	require.JSONEq(t, `{"locktree_version":"1.2.3","platform":"linux_amd64","revision":"","modified":false,"payload_format":1}`, out.String())
}

// The line of progress is removed before the next output, and never wraps.
func TestTheLineOfProgressIsRemoved(t *testing.T) {
	var screen strings.Builder
	to := view.Stream{Writer: &screen, Terminal: true, Width: 60}
	v := view.NewHuman(to, to)
	v.Progress(&view.Progress{What: "Connecting to zk1:2181", Elapsed: 2500 * time.Millisecond})
	v.Progress(&view.Progress{What: `Reading ensemble "main"`, Unit: "nodes", Done: 100, Total: 400, Elapsed: 3 * time.Second})
	v.Message("a message")
	v.Progress(&view.Progress{What: "Reading " + strings.Repeat("a", 100), Elapsed: time.Second})
	v.Progress(nil)
	v.Progress(nil)
	v.Show(view.Version{Version: "1", Platform: "p"})
	const gone = "\r\x1b[K"
	require.Equal(t, "Connecting to zk1:2181: 2s"+gone+`Reading ensemble "main": 100 of 400 nodes, about 9s left`+gone+"a message\n"+
		"Reading "+strings.Repeat("a", 51)+gone+"locktree v1\non p\nznode payload format 0\n", screen.String())

	var pipe strings.Builder
	v = view.NewHuman(view.Stream{Writer: &pipe}, view.Stream{Writer: &pipe})
	v.Progress(&view.Progress{What: "Connecting"})
	require.Empty(t, pipe.String())
}

// A name that was mistyped fifty times gave fifty errors of the same words.
func TestDiagnosticsOfTheSameWordsAreFolded(t *testing.T) {
	file := &hcl.File{Bytes: []byte(strings.Repeat("acl = acl.opn\n", 50))}
	var diags hcl.Diagnostics
	for i := range 50 {
		at := hcl.Range{Filename: "a.locktree.hcl", Start: hcl.Pos{Line: i + 1, Column: 7, Byte: i*14 + 6}, End: hcl.Pos{Line: i + 1, Column: 14, Byte: i*14 + 13}}
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown reference", Detail: "There is no acl.opn.", Subject: &at},
			&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Other", Detail: fmt.Sprint("Differs: ", i), Subject: &at})
	}
	v, _, err := capture()
	v.Diagnostics(diags, map[string]*hcl.File{"a.locktree.hcl": file})
	require.Equal(t, 3, strings.Count(err.String(), "Error: Unknown reference"))
	require.Equal(t, 50, strings.Count(err.String(), "Warning: Other"))
	require.Contains(t, err.String(), "There is no acl.opn.\n\n47 more like this, the next on a.locktree.hcl line 4.\n")
	v, _, err = capture()
	v.Diagnostics(append(diags[:4:4], diags[5]), nil)
	require.Equal(t, 2, strings.Count(err.String(), "Error: Unknown reference"))
	require.NotContains(t, err.String(), "more like this")
}

// An error on a line of two megabytes showed the line, and one about a value of that length showed the value.
func TestDiagnosticsOfLongLinesNameThePlace(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for _, src := range []string{
		"a = 1\nb = [\"" + long + "\", acl.nope, \"" + long + "\"]\n", "a = 1\nb = acl.nope\nc = \"" + long + "\"\n",
		"a = 1\nb = \"" + long + "${acl.nope}", "a = 1\nb = acl.nope + acl." + long,
	} {
		file := &hcl.File{Bytes: []byte(src)}
		at := hcl.Range{Filename: "a.locktree.hcl", Start: hcl.Pos{Line: 2, Column: 9, Byte: strings.Index(src, "acl.nope")}}
		at.End = hcl.Pos{Line: 2, Column: 17, Byte: at.Start.Byte + len("acl.nope")}
		context := hcl.Range{Filename: at.Filename, Start: hcl.Pos{Line: 1}, End: hcl.Pos{Line: 3, Byte: len(src)}}
		d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Wrong " + long, Detail: "There is no " + long + ".", Subject: &at, Context: &context,
			Expression:  &hclsyntax.ScopeTraversalExpr{Traversal: hcl.Traversal{hcl.TraverseRoot{Name: "v"}}},
			EvalContext: &hcl.EvalContext{Variables: map[string]cty.Value{"v": cty.StringVal(long)}}}
		files := map[string]*hcl.File{at.Filename: file}
		v, _, text := capture(func(s *view.Stream) { s.Color = true })
		v.Diagnostics(hcl.Diagnostics{d}, files)
		require.Less(t, text.Len(), 10_000)
		require.True(t, utf8.Valid(text.Bytes()))
		require.Contains(t, text.String(), "In a.locktree.hcl, line 2, column 9: There is no éé")
		require.Contains(t, text.String(), `v is "éé`)

		j := view.DiagnosticsJSON(hcl.Diagnostics{d}, files)[0]
		require.Nil(t, j.Snippet)
		require.Equal(t, at.Start.Byte, j.Range.Start.Byte, "the place is that of the file")
	}
}

// A configuration under review wrote to the terminal of the person who validated it: its lines were quoted unescaped.
func TestQuotedSourceIsInert(t *testing.T) {
	src := "é = \"\x1b]0;owned\a\x00\u202e\x9b\u009b\" + acl.nope\r\n"
	at := hcl.Range{Filename: "a.locktree.hcl", Start: hcl.Pos{Line: 1, Byte: strings.Index(src, "acl")}, End: hcl.Pos{Line: 1, Byte: strings.Index(src, "\r")}}
	v, _, text := capture(func(s *view.Stream) { s.Color = true })
	v.Diagnostics(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Wrong", Detail: "It is.", Subject: &at}}, map[string]*hcl.File{at.Filename: {Bytes: []byte(src)}})
	require.Contains(t, text.String(), "é = \"?]0;owned????"+"????\" + \x1b[1;4macl.nope\x1b[0m\n")
	require.NotContains(t, text.String(), "\x1b]")
	require.False(t, strings.ContainsAny(text.String(), "\a\x00\u202e\u009b"))
}

// Ranges that reach beyond the file, as those of an unfinished file do, must not make the snippet fail.
func TestSnippetAtTheEdges(t *testing.T) {
	file := &hcl.File{Bytes: []byte("a = ")}
	for _, r := range []hcl.Range{
		{Start: hcl.Pos{Line: 1, Byte: 4}, End: hcl.Pos{Line: 1, Byte: 4}},
		{Start: hcl.Pos{Line: 1, Byte: 2}, End: hcl.Pos{Line: 9, Byte: 99}},
		{Start: hcl.Pos{Line: 2, Byte: 5}, End: hcl.Pos{Line: 2, Byte: 6}},
		{},
	} {
		s := view.Snippet(&hcl.Diagnostic{Subject: &r}, file)
		if s != nil {
			require.LessOrEqual(t, s.HighlightStartOffset, len(s.Code))
			require.LessOrEqual(t, s.HighlightEndOffset, len(s.Code))
		}
	}
	require.Nil(t, view.Snippet(&hcl.Diagnostic{Subject: &hcl.Range{}}, nil))
}

// Every error of the engine, as a person reads it.
func TestEachErrorOfTheEngineIsExplained(t *testing.T) {
	info := &failure.LockInfo{ID: "7f3a", Path: "/l/.locktree/apply/p", Operation: "OperationTypeApply", Who: "ann@host", Version: "1.2.3", Created: clock(), Info: ""}
	differences := []failure.Difference{
		{Addr: "mutex.a", Path: "/a", What: "data changed", Want: plan.Pin{Version: 3}, Got: plan.Pin{Version: 4}, ModifiedMs: now},
		{Path: "/.locktree/stacks/shop", What: "deleted", Got: plan.Pin{Absent: true}},
	}
	refused := &failure.NodeError{Addr: "mutex.a", Path: "/a", Op: "set", Why: "we may not write it", Next: "Grant us w on it.", Err: errors.New("zk: not authenticated")}
	_, cutOff := saved.Decode(strings.NewReader(`{"locktree_p`), "1.2.3")
	_, damaged := saved.Decode(strings.NewReader(`{"locktree_plan":2,"version":"1.2.3"`+"\n\n"+strings.Repeat("0", 64)+"\n"), "1.2.3")
	errs := []error{
		&failure.ProblemsError{Problems: []plan.Problem{{Severity: problem.Error, Addr: "mutex.a", Summary: "It stands", Detail: "Move it."}}},
		&failure.StaleError{Differences: differences},
		&failure.StaleError{Differences: differences[:1], Locked: true},
		&failure.LockedError{Info: info, Path: info.Path, Waited: 90 * time.Second},
		&failure.LockedError{Path: info.Path},
		&failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Delete, Usage: busy, Others: 2},
		&failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Replace},
		&failure.ConflictError{Addr: "mutex.a", Path: "/a", Op: tx.OpSet, Why: "its data was changed", Err: errors.New("recipes: bad version")},
		&failure.TooLargeError{Addr: "mutex.a", Ops: 1, Bytes: 1_200_000, Limit: 900_000},
		&failure.TooLargeError{Addr: "mutex.a", Ops: 1, Bytes: 200_000, Limit: 900_000, Refused: true},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.ConflictError{Addr: "mutex.a", Path: "/a", Op: tx.OpSet, Why: "its data was changed", Err: errors.New("recipes: bad version")}},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.UnknownError{ApplyID: "7f3a", Err: errors.New("recipes: connection lost")}},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: errors.New("recipes: session lost")},
		&view.SomeEnsembles{Applied: []string{"main", "spare"}, Failed: "far", Err: &failure.StaleError{Differences: differences}},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.NodeError{Path: "/l", Op: "commit to", Why: "the connection broke", Written: "Nothing was written.", Next: "Look at the network."}},
		&view.SomeEnsembles{Applied: []string{"main"}, Failed: "far", Err: fmt.Errorf("read: %w", context.Canceled)},
		refused,
		&failure.UnknownError{ApplyID: "7f3a", Err: errors.New("recipes: connection lost")},
		&failure.ACLPhaseError{ApplyID: "7f3a", Done: 1, Total: 3, Err: refused},
		&failure.ACLPhaseError{ApplyID: "7f3a", Done: 3, Total: 3, Err: refused},
		&failure.ClosedError{Locks: []string{"mutex.a (/a)"}, Err: &failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Delete, Usage: busy}, Why: refused},
		&failure.ClosedError{Locks: []string{"mutex.a (/a)"}, Err: fmt.Errorf("drain: %w", context.Canceled)},
		&failure.PartialError{ApplyID: "7f3a", Done: 1, Total: 3, Err: &failure.ClosedError{Locks: []string{"mutex.a (/a)"}, Err: fmt.Errorf("drain: %w", context.Canceled)}},
		&failure.VerifyError{Differences: differences},
		&failure.VerifyError{Err: errors.New("recipes: connection lost")},
		&failure.VerifyError{Err: refused},
		&failure.UnknownError{ApplyID: "7f3a", Err: errors.Join(errors.New("recipes: connection lost"), refused)},
		&failure.InUseError{Addr: "mutex.a", Path: "/a", Action: plan.Replace, Usage: busy},
		&view.Denied{Err: refused, Who: []string{"world:anyone", "digest:admin"}},
		&view.Denied{Err: errors.New("zk: not authenticated"), Who: []string{"world:anyone"}},
		// Both parts said that we are digest:x, and what a wrong password means.
		&view.Denied{Err: &direct.OpError{Op: "Get", Path: "/n/a", Err: errors.New("permission denied: needs READ on /n/a; connected as digest:x"),
			Hint: "ask for that right, or check the credentials: ZooKeeper accepts a wrong digest password, and then grants nothing to it"}, Who: []string{"digest:x"}},
		&failure.MovedError{Path: "/l/.locktree/stacks/p", Tries: 5},
		fmt.Errorf("%w: zk1:2181: connection refused", recipes.ErrUnreachable),
		fmt.Errorf("%w: digest", recipes.ErrAuth),
		fmt.Errorf("read: %w", context.Canceled),
		fmt.Errorf("reading p.bin: %w", saved.ErrNotPlan),
		cutOff,
		damaged,
		&saved.VersionError{Wrote: "9.0.0", Reads: "1.2.3", Format: 9},
		(&saved.File{Stack: "a"}).CheckStack("b"),
		view.Failf("Summary", "Detail of %s.", "it"),
		errors.New("recipes: something else\nwith a second line"),
	}
	var b strings.Builder
	for _, err := range errs {
		v, _, text := capture()
		v.Diagnostics(view.Explain(fmt.Errorf("wrapped: %w", err)), nil)
		require.NotContains(t, text.String(), "recipes:", "package names mean nothing to who reads this")
		fmt.Fprintf(&b, "=== %T%s", err, text.String())
	}
	golden(t, "errors.txt", b.String())
}

// The error said that 3 of 3 lists were "only partly set", and that a plan shows the rest.
func TestAccessListsThatAreAllSetAreNotSaidToBeSetInPart(t *testing.T) {
	x := view.Explained(&failure.ACLPhaseError{ApplyID: "7f3a", Done: 3, Total: 3, Err: errors.New("recipes: connection lost")})
	require.NotContains(t, x.String(), "Not all")
	require.NotContains(t, x.String(), "The rest")
	require.Contains(t, x.Detail, "all 3 access lists")
}

// An error named our identities as "digest:x and digest:y". The command looked for "digest:x, digest:y" in it, and so named them again.
func TestWhoWeAreIsSaidOnce(t *testing.T) {
	who := []string{"digest:x", "digest:y"}
	for _, err := range []error{
		&direct.OpError{Op: "get", Path: "/n", Err: errors.New("permission denied: needs READ on /n; connected as digest:x and digest:y")},
		&failure.NodeError{Path: "/n", Op: "set", Why: "we (digest:x, digest:y) do not have WRITE on /n", Next: "Connect with an identity that has it.", Named: true},
		&failure.NodeError{Path: "/n", Op: "read", Why: "we do not have READ on it", Next: "Connect with an identity that has it."},
	} {
		x := (&view.Denied{Err: err, Who: who}).Explain()
		require.Equal(t, 1, strings.Count(x.Text(), "digest:y"), x.Text())
	}
}

// "kind: " was removed from the middle of a sentence: "lock is of another /t/ledger".
func TestOnlyWhatAnErrorBeginsWithIsItsPackage(t *testing.T) {
	for text, want := range map[string]string{
		"recipes: lock is of another kind: /t/ledger is a semaphore": "lock is of another kind: /t/ledger is a semaphore",
		"apply: recipes: connect: zk: no server":                     "connect: no server",
		"cannot read /a: recipes: get /a: zk: not authenticated":     "cannot read /a: get /a: not authenticated",
		"lost (recipes: session lost); kind: no payload":             "lost (session lost); no payload",
	} {
		require.Equal(t, want, explain.Plain(text))
	}
}

func TestDifferencesAlikeAreFolded(t *testing.T) {
	e := &failure.StaleError{}
	for i := range 9 {
		e.Differences = append(e.Differences, failure.Difference{Addr: plan.Addr(fmt.Sprintf("mutex.m%d", i)), Path: "/m", What: "deleted"})
	}
	e.Differences = append(e.Differences, failure.Difference{Addr: "mutex.n", Path: "/n", What: "created"})
	detail := view.Explained(e).Text()
	require.Equal(t, 4, strings.Count(detail, "  - mutex."), detail)
	require.Contains(t, detail, "  - mutex.n (/n): created\n  - 6 more: deleted\n")
}
