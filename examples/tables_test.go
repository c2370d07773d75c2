package examples_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A generated table: a comment that names it, an empty line, and its rows.
var generatedTable = regexp.MustCompile(`(?m)^<!-- table: (.+) -->\n\n((?:\|.*\n)*)`)

// tables are generated from the program's source.
var tables = map[string]func(*testing.T) [][]string{
	"metrics of programs": metricsOfPrograms,
	"metrics of serve":    metricsOfServe,
	"events of programs":  eventsOfPrograms,
}

func tableOf(t *testing.T, name string) string {
	t.Helper()
	require.Contains(t, tables, name)
	var b strings.Builder
	for i, row := range tables[name](t) {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// metricsOfPrograms reads the documentation of recipes/prom. A test there compares it with the exported metrics.
func metricsOfPrograms(t *testing.T) [][]string {
	rows := [][]string{{"metric", "type", "what"}}
	for _, m := range regexp.MustCompile(`(?m)^//\t(locktree_\S+) +(\w+) +(.+)$`).FindAllStringSubmatch(contents(t, "../recipes/prom/doc.go"), -1) {
		rows = append(rows, []string{"`" + m[1] + "`", m[2], m[3]})
	}
	return rows
}

// metricsOfServe reads the literals in the calls that add series.
func metricsOfServe(t *testing.T) [][]string {
	rows, seen := [][]string{{"metric", "type", "what"}}, map[string]bool{}
	ast.Inspect(parsed(t, "../cmd/locktree/internal/page/metrics.go"), func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "add" || len(call.Args) < 4 {
			return true
		}
		name := literal(call.Args[0])
		require.NotEmpty(t, name, "a metric whose name is not written out")
		if seen[name] {
			return true
		}
		seen[name] = true
		if labels := labelsOf(call.Args[4:]); len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		rows = append(rows, []string{"`" + name + "`", literal(call.Args[1]), literal(call.Args[2])})
		return true
	})
	return rows
}

// labelsOf returns the names among names and values. metrics.go calls the labels of an ensemble en, and those of a lock l.
func labelsOf(args []ast.Expr) (labels []string) {
	if len(args) == 1 {
		switch arg := args[0].(type) {
		case *ast.Ident:
			return map[string][]string{"en": {"ensemble"}, "l": {"ensemble", "lock", "kind"}}[arg.Name]
		case *ast.CallExpr: // append, slices.Clip
			return append(labelsOf(arg.Args[:1]), labelsOf(arg.Args[1:])...)
		}
	}
	for i := 0; i < len(args); i += 2 {
		labels = append(labels, literal(args[i]))
	}
	return labels
}

// eventsOfPrograms reads the constants of recipes. Those of a session have their values in the session package.
func eventsOfPrograms(t *testing.T) [][]string {
	values, comments := map[string]string{}, map[string]string{}
	rows, of := [][]string{{"of", "`Type`", "constant", "what"}}, ""
	for _, file := range []string{"../recipes/internal/session/session.go", "../recipes/observe.go"} {
		ast.Inspect(parsed(t, file), func(n ast.Node) bool {
			if group, ok := n.(*ast.GenDecl); ok {
				if m := regexp.MustCompile(`^(?:The events|Events) of (?:a|the Client's) (call|lease|session)`).FindStringSubmatch(group.Doc.Text()); m != nil {
					of = m[1]
				}
			}
			v, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(v.Names[0].Name, "Event") {
				return true
			}
			name, value := v.Names[0].Name, literal(v.Values[0])
			if theirs, ok := v.Values[0].(*ast.SelectorExpr); ok {
				value = values[theirs.Sel.Name]
				delete(values, theirs.Sel.Name)
			}
			if strings.Contains(file, "internal") {
				values[name], comments[name] = value, v.Comment.Text()
				return true
			}
			rows = append(rows, []string{of, "`" + value + "`", "`" + name + "`", strings.TrimSpace(v.Comment.Text())})
			return true
		})
	}
	for name, value := range values {
		rows = append(rows, []string{of, "`" + value + "`", "none", strings.TrimSpace(comments[name])})
	}
	require.Len(t, rows, 12, "an event without a constant more, or less")
	return rows
}

func parsed(t *testing.T, file string) *ast.File {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	require.NoError(t, err)
	return f
}

// literal returns the value of a string literal, and "" for any other expression.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}
