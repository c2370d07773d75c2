package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// messagePackages are the packages whose messages a person may read. Packages in one line are read together: their functions that take
// messages are called from each other.
var messagePackages = []string{"*.go internal/*/*.go internal/view/*/*.go", "../../config/*.go ../../config/*/*.go ../../config/internal/*/*.go",
	"../../plan/*.go ../../plan/*/*.go ../../plan/*/*/*.go", "../../apply/*.go ../../apply/*/*.go ../../apply/internal/*/*.go"}

// messageNames are the source's names for the first part of a message. A parameter, a result, or a field of such a name holds a message. An
// error that is only a text is one, too.
var messageNames = []string{"summary", "why"}

// message is a text of the source. A text with parts that are filled in there is a pattern.
type message struct {
	text string // as in the source, "…" for what is filled in
	at   string // file:line
	seen *regexp.Regexp
}

// Every message of the program to a person is in a script, or stands in unscripted.txt with the reason.
func TestEveryMessageIsInAScript(t *testing.T) {
	effort.Daily(t)
	known := sourceMessages(t)
	require.Greater(t, len(known), 150, "the messages of the source were found")
	said := scriptedText(t)
	reasons := unscripted(t)
	for _, m := range known {
		_, excused := reasons[m.text]
		if m.seen.MatchString(said) {
			if excused {
				t.Errorf("%q is in a script by now: take it out of unscripted.txt", m.text)
			}
		} else if !excused {
			t.Errorf("%s: %q is in no script: write one which shows it, or give the reason in testdata/unscripted.txt", m.at, m.text)
		}
		delete(reasons, m.text)
	}
	require.Empty(t, reasons, "testdata/unscripted.txt has messages nobody gives")
}

// A script runs every command and gives every flag. If several commands share a flag, a script for one of them suffices.
func TestEveryCommandAndFlagIsInAScript(t *testing.T) {
	global := regexp.MustCompile(`(locktree)( -chdir=\S+| -no-color)+`)
	var lines []string
	for _, archive := range archives(t, "script/*.txtar", "script/both/*.txtar") {
		for line := range strings.SplitSeq(string(archive.Comment), "\n") {
			lines = append(lines, global.ReplaceAllString(line, "$1")+" ")
		}
	}
	typed := map[string]bool{}
	eachCommand(func(c *cobra.Command) {
		own := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, c.CommandPath()+" ") })
		if c.Runnable() && len(own) == 0 {
			t.Errorf("no script runs %q", c.CommandPath())
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			given := regexp.MustCompile(` '?-` + f.Name + `[= ']`)
			flag := "-" + f.Name + ", " + f.Usage
			typed[flag] = typed[flag] || slices.ContainsFunc(own, given.MatchString)
		})
	})
	require.Greater(t, len(typed), 30)
	for _, flag := range slices.Sorted(maps.Keys(typed)) {
		if !typed[flag] {
			t.Errorf("no script gives %s", flag)
		}
	}
}

// A message of the command said "check Config.Auth", which its users do not have. Dial may name the fields of an argument that it refuses.
func TestMessagesOfTheLibraryNameNoFieldsOfItsConfig(t *testing.T) {
	for _, name := range sourceFiles(t, "../../recipes/*.go", "../../recipes/[!z]*/*.go", "../../recipes/in*/*/*.go", "../../recipes/in*/*/*/*.go") {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				require.NotRegexp(t, `Config\.(Auth|TLS|Servers|SessionTimeout|ConnectTimeout|ID)\b`, strings.TrimPrefix(lit.Value, `"recipes: Config.`), name)
			}
			return true
		})
	}
}

func archives(t *testing.T, patterns ...string) (all []*txtar.Archive) {
	for _, pattern := range patterns {
		files, err := filepath.Glob("../../testdata/" + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			archive, err := txtar.ParseFile(name)
			require.NoError(t, err)
			all = append(all, archive)
		}
	}
	return all
}

// unscripted reads the list: a line "text" for each message, the reason above it.
func unscripted(t *testing.T) map[string]string {
	page, err := os.ReadFile("../../testdata/unscripted.txt")
	require.NoError(t, err)
	reasons, reason := map[string]string{}, ""
	for line := range strings.SplitSeq(string(page), "\n") {
		switch text, err := strconv.Unquote(strings.TrimSpace(line)); {
		case strings.HasPrefix(line, "#"):
			reason = strings.TrimSpace(line[1:])
		case line == "":
			reason = ""
		default:
			require.NoError(t, err, line)
			require.NotEmpty(t, reason, "no reason is given for %s", line)
			reasons[text] = reason
		}
	}
	return reasons
}

// condition matches the conditions at the start of a line of a script.
var condition = regexp.MustCompile(`^(\[[^]]*\] )+`)

// scriptedText is the output that scripts expect: the lines that look at it, without the marks of a regular expression, and the files that
// it is compared with.
func scriptedText(t *testing.T) string {
	var b strings.Builder
	for _, archive := range archives(t, "script/*.txtar", "script/both/*.txtar", "config/*.txtar") {
		for line := range strings.SplitSeq(string(archive.Comment), "\n") {
			line = condition.ReplaceAllString(line, "")
			if strings.HasPrefix(line, "stderr ") || strings.HasPrefix(line, "stdout ") {
				b.WriteString(strings.ReplaceAll(line, `\`, "") + "\n")
			}
		}
		for _, f := range archive.Files {
			if text := string(f.Data); strings.Contains(text, "Error: ") || strings.Contains(text, "Warning: ") {
				b.WriteString(text + "\n")
			}
		}
	}
	return b.String()
}

// sourceMessages finds them by their names, see messageNames.
func sourceMessages(t *testing.T) []message {
	found := map[string]message{}
	for _, together := range messagePackages {
		p := &messagesOf{texts: map[string]ast.Expr{}, params: map[string]int{}, found: found}
		var parsed []*ast.File
		for _, name := range sourceFiles(t, strings.Fields(together)...) {
			f, err := parser.ParseFile(&p.set, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			parsed = append(parsed, f)
		}
		for _, f := range parsed {
			ast.Inspect(f, p.declare)
		}
		for _, f := range parsed {
			ast.Inspect(f, p.collect)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b message) int { return strings.Compare(a.at, b.at) })
}

type messagesOf struct {
	set    token.FileSet
	texts  map[string]ast.Expr // what a constant or variable of this name is set to
	params map[string]int      // by function, which parameter is a message
	found  map[string]message
}

// declare notes the functions that take a message, and the names of texts.
func (p *messagesOf) declare(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		p.takes(n.Name.Name, n.Type)
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if len(n.Lhs) != len(n.Rhs) {
				break
			}
			name, ok := left.(*ast.Ident)
			if f, lit := n.Rhs[i].(*ast.FuncLit); ok && lit {
				p.takes(name.Name, f.Type)
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				p.texts[name.Name] = n.Values[i]
			}
		}
	}
	return true
}

func (p *messagesOf) takes(function string, f *ast.FuncType) {
	i := 0
	for _, field := range f.Params.List {
		for _, name := range field.Names {
			if isMessage(name.Name) {
				p.params[function] = i
			}
			i++
		}
	}
}

func isMessage(name string) bool { return slices.Contains(messageNames, strings.ToLower(name)) }

func (p *messagesOf) collect(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := called(n.Fun)
		i, ok := p.params[lastName(name)]
		switch {
		case name == "errors.New", name == "fmt.Errorf":
			if p.set.Position(n.Pos()).Filename[0] != '.' { // only the command's own: errors of other packages are shown with what failed
				p.add(n.Args[0])
			}
		case name == "view.Failf":
			p.add(n.Args[0])
		case ok && i < len(n.Args):
			p.add(n.Args[i])
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && isMessage(key.Name) {
			p.add(n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			s, field := left.(*ast.SelectorExpr)
			if name, ok := left.(*ast.Ident); len(n.Lhs) == len(n.Rhs) && (field && isMessage(s.Sel.Name) || ok && isMessage(name.Name)) {
				p.add(n.Rhs[i])
			}
		}
	case *ast.FuncDecl:
		p.results(n)
	}
	return true
}

// results are the messages a function returns by name.
func (p *messagesOf) results(f *ast.FuncDecl) {
	if f.Type.Results == nil || f.Body == nil {
		return
	}
	at, n := -1, 0
	for _, field := range f.Type.Results.List {
		for _, name := range field.Names {
			if isMessage(name.Name) {
				at = n
			}
			n++
		}
	}
	ast.Inspect(f.Body, func(node ast.Node) bool {
		if r, ok := node.(*ast.ReturnStmt); ok && at >= 0 && len(r.Results) == n {
			p.add(r.Results[at])
		}
		_, inner := node.(*ast.FuncLit)
		return !inner
	})
}

func called(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
		return f.Sel.Name
	}
	return ""
}

func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

var formatVerbs = regexp.MustCompile(`%[-+# 0-9.]*[a-z]`)

// add notes an expression that is a message, unless it only passes one on.
func (p *messagesOf) add(e ast.Expr) {
	text := strings.TrimSpace(formatVerbs.ReplaceAllString(p.text(e, 0), "…"))
	text = regexp.MustCompile(`…+`).ReplaceAllString(text, "…")
	if strings.Trim(text, "… :()") == "" || p.found[text].text != "" {
		return
	}
	// A longer message that begins with these words does not count.
	pattern := `(?m)(^|\W)` + strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*")
	if !strings.HasSuffix(text, "…") {
		pattern += `($|[^ \w])`
	}
	at := p.set.Position(e.Pos())
	p.found[text] = message{text: text, at: fmt.Sprintf("%s:%d", filepath.ToSlash(at.Filename), at.Line), seen: regexp.MustCompile(pattern)}
}

// text is an expression's value as far as the source says it.
func (p *messagesOf) text(e ast.Expr, depth int) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return p.text(e.X, depth) + p.text(e.Y, depth)
	case *ast.CallExpr:
		if called(e.Fun) == "fmt.Sprintf" {
			return p.text(e.Args[0], depth)
		}
	case *ast.Ident:
		if v := p.texts[e.Name]; v != nil && depth < 3 {
			return p.text(v, depth+1)
		}
	}
	return "…"
}

// The page on JSON names every message of the stream and every field at the top of
// the documents.
func TestJSONTopicIsComplete(t *testing.T) {
	messages := regexp.MustCompile(`(?:\b(?:[ms]\.Send|write|about)\(\w*"?\w*"?, |kind, action :?= )"(\w*[a-z])"`).FindAllStringSubmatch(sourceOf(t, "internal/view/*.go", "internal/view/*/*.go"), -1)
	require.Greater(t, len(messages), 20)
	for _, m := range messages {
		require.Regexp(t, `\b`+m[1]+`\b`, topicText("json"))
	}
	b := newBench(t, "mutex \"a\" {\n  acl = acl.open\n}\n")
	b.run(exit.OK, "plan", "-out=p")
	for _, command := range []string{"show -json p", "show -json", "validate -json", "version -json", "status -json"} {
		out, _ := b.run(exit.OK, strings.Split(command, " ")...)
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(out), &document), command)
		require.NotEmpty(t, document)
		for field := range document {
			require.Regexp(t, `\b`+field+`\b`, topicText("json"), command)
		}
	}
}

// Every variable that the program reads stands in its page, and no other does.
func TestEnvironmentTopicIsComplete(t *testing.T) {
	source := sourceOf(t, "*.go", "internal/*/*.go", "internal/view/*/*.go", "../../config/*.go", "../../config/*/*.go", "../../config/internal/*/*.go")
	looked := map[string]bool{}
	for _, m := range regexp.MustCompile(`"((?:ZOOKEEPER|LOCKTREE|CLICOLOR|NO_COLOR|TERM)(?:_[A-Z_]+)?)"`).FindAllStringSubmatch(source, -1) {
		looked[m[1]] = true
		require.Regexp(t, `(?m)^  `+m[1], topicText("environment"))
	}
	require.Greater(t, len(looked), 12)
	for _, m := range regexp.MustCompile(`(?m)^  ([A-Z_]{4,})`).FindAllStringSubmatch(topicText("environment"), -1) {
		require.True(t, looked[m[1]], m[1])
	}
}

// Every flag that the guides mention exists.
func TestGuidesMentionWhatExists(t *testing.T) {
	known := map[string]bool{}
	eachCommand(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	})
	mentioned := 0
	for _, text := range []string{topicText("from-terraform"), topicText("from-curator"), topicText("environment")} {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n,.;:()\"", r) }) {
			name, _, _ := strings.Cut(strings.TrimPrefix(word, "-"), "=")
			if strings.HasPrefix(help.Normalize(appWith().rootCommand(), []string{word})[0], "--") {
				require.True(t, known[name], "-%s", name)
				mentioned++
			}
		}
	}
	require.Greater(t, mentioned, 10)
}

// The help of serve had 59 lines on a terminal of 100 columns, and that of locktree 54.
func TestTheHelpOfEachCommandFitsOneScreen(t *testing.T) {
	eachCommand(func(c *cobra.Command) {
		if c.IsAdditionalHelpTopicCommand() {
			return
		}
		lines := 0
		for line := range strings.Lines(tool(t, exit.OK, ".", nil, append(strings.Fields(c.CommandPath())[1:], "-help")...)) {
			lines += 1 + utf8.RuneCountInString(line)/101
		}
		require.LessOrEqual(t, lines, 50, c.CommandPath())
	})
}

// sourceFiles are the files of some patterns, without tests.
func sourceFiles(t *testing.T, patterns ...string) (all []string) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		all = append(all, slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })...)
	}
	return all
}

func sourceOf(t *testing.T, patterns ...string) (source string) {
	for _, name := range sourceFiles(t, patterns...) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source += string(text)
	}
	return source
}

func topicText(name string) string {
	for _, c := range help.Topics() {
		if c.Use == name {
			return c.Long
		}
	}
	panic(name)
}
