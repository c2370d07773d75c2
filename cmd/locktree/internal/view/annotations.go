package view

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
)

// annotated is an output that also writes the workflow commands of GitHub Actions, which show problems and changes beside the lines
// that declare them.
type annotated struct {
	Output
	log  Stream
	root string // of the repository; "" where it is not known: names of files stay as they are
}

// Annotate adds the workflow commands to an output, on log: GitHub reads both streams of a step.
func Annotate(out Output, log Stream, root string) Output { return &annotated{out, log, root} }

// Diagnostics implements [Output].
func (a *annotated) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	a.Output.Diagnostics(diags, files)
	a.problems(diags)
}

// Show implements [Output].
func (a *annotated) Show(r Result) {
	a.Output.Show(r)
	switch r := r.(type) {
	case Validation:
		a.problems(r.Diagnostics)
	case Plan:
		a.problems(Problems(r))
		a.changes(r)
	}
}

// Close ends the output, see [Close].
func (a *annotated) Close() { Close(a.Output) }

func (a *annotated) problems(diags hcl.Diagnostics) {
	for _, d := range diags {
		level, text := "error", d.Detail
		if d.Severity == hcl.DiagWarning {
			level = "warning"
		}
		if address, ok := d.Extra.(Address); ok && !strings.HasPrefix(text, string(address)) {
			text = string(address) + ": " + text
		}
		a.command(level, d.Subject, d.Summary, text)
	}
}

// changes are those that the configuration declares: what is no longer declared has no line. Replacements come first, for GitHub
// shows ten of a step.
func (a *annotated) changes(p Plan) {
	for _, one := range p.Plans {
		all := byPath(one.Changes)
		slices.SortStableFunc(all, func(c, d *plan.Change) int { return weight(c) - weight(d) })
		for _, c := range all {
			if c.After == nil || c.Action == plan.NoOp && !moved(c) {
				continue
			}
			if at := declaration(c.After.Origin, p.Files); at != nil {
				a.command("notice", at, string(c.Addr)+" "+happens(c), strings.TrimSuffix("path "+quote(c.Path)+"; "+gistText(c), "; "))
			}
		}
	}
}

func weight(c *plan.Change) int {
	if c.Action == plan.Replace {
		return 0
	}
	return 1
}

// happens says in words what a change does.
func happens(c *plan.Change) string {
	if c.Action == plan.NoOp || moved(c) && onlyMoves(c) {
		return "has moved from " + string(c.PreviousAddr)
	}
	return verb(c)
}

// The rules of GitHub: a line ends a command, and a colon or comma a property.
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (a *annotated) command(level string, at *hcl.Range, title, text string) {
	where := ""
	if at != nil && at.Start.Line > 0 {
		where = fmt.Sprintf("file=%s,line=%d,endLine=%d,", commandProperty.Replace(clean(a.relative(at.Filename))), at.Start.Line, at.End.Line)
	}
	a.log.printf("::%s %stitle=%s::%s\n", level, where, commandProperty.Replace(clean(title)), commandData.Replace(CleanLines(clipText(text))))
}

// relative is the name of a file as GitHub knows it.
func (a *annotated) relative(name string) string {
	whole, err := filepath.Abs(name)
	if err != nil || a.root == "" {
		return filepath.ToSlash(name)
	}
	if rel, err := filepath.Rel(a.root, whole); err == nil && filepath.IsLocal(rel) {
		name = rel
	}
	return filepath.ToSlash(name)
}
