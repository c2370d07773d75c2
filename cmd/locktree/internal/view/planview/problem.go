package planview

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
)

// Problems turns the problems of plans into diagnostics, with the line that declares the node if there is one.
func Problems(p Plan) hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, one := range p.Plans {
		for i := range one.Problems {
			out = append(out, diagnostic(&one.Problems[i], p.Files))
		}
	}
	return out
}

// folded is problems for people: one of many nodes is shown once, with the first three of them.
func folded(p Plan) hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, one := range p.Plans {
		for _, same := range plan.Fold(one.Problems) {
			d := diagnostic(&same[0], p.Files)
			var others []string
			for _, p := range same[1:] {
				others = append(others, cmp.Or(string(p.Addr), p.Path))
			}
			if len(others) > 0 {
				d.Detail += fmt.Sprintf("\n\nThe same goes for %d more: %s.", len(others), view.FirstFew(others))
			}
			out = append(out, d)
		}
	}
	return out
}

func diagnostic(p *plan.Problem, files map[string]*hcl.File) *hcl.Diagnostic {
	d := &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: p.Summary, Detail: p.Detail, Extra: view.Address(p.Addr)}
	if p.Severity == problem.Error {
		d.Severity = hcl.DiagError
	}
	d.Subject = declaration(p.Origin, files)
	return d
}

// declaration finds the line that "locks.locktree.hcl:12" means. The trees carry the place as text, so that the planner needs no HCL.
func declaration(origin string, files map[string]*hcl.File) *hcl.Range {
	i := strings.LastIndexByte(origin, ':')
	if i < 0 {
		return nil
	}
	number, err := strconv.Atoi(origin[i+1:])
	if err != nil || number < 1 {
		return nil
	}
	name, file := origin[:i], files[origin[:i]]
	for _, known := range slices.Sorted(maps.Keys(files)) {
		if file == nil && filepath.Base(known) == name {
			name, file = known, files[known]
		}
	}
	if file == nil {
		return nil
	}
	start := 0
	for range number - 1 {
		next := bytes.IndexByte(file.Bytes[start:], '\n')
		if next < 0 {
			return nil
		}
		start += next + 1
	}
	line, _, _ := bytes.Cut(file.Bytes[start:], []byte("\n"))
	place := func(at int) hcl.Pos { return hcl.Pos{Line: number, Column: 1 + at, Byte: start + at} }
	return &hcl.Range{Filename: name, Start: place(len(line) - len(bytes.TrimLeft(line, " \t"))), End: place(len(bytes.TrimRight(line, " \t\r{")))}
}
