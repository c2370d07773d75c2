package config

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns src in the canonical layout. The name decides between native and JSON syntax; JSON, which has no canonical
// layout, is returned as it is. A source that does not parse is returned unchanged, with the reasons.
func Format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	isJSON := strings.HasSuffix(filename, ".json")
	r := &report{}
	if len(src) > maxFileBytes {
		r.errorf(fileStart(filename), "Cannot read the file", "The file is larger than %d MiB.", maxFileBytes>>20)
		return src, r.sorted()
	}
	file, diags := parseFile(src, filename, isJSON)
	r.add(causes(diags)...)
	if isJSON || r.diags.HasErrors() {
		return src, r.sorted()
	}
	w := rewriter{src: src}
	w.body(file.Body.(*hclsyntax.Body))
	return hclwrite.Format(w.result()), r.sorted()
}

// rewriter changes two things that hclwrite's layout leaves alone, as "terraform fmt" does: "${x}" becomes x, which means
// the same, and labels are quoted. It replaces parts of the text and leaves the rest, and so all comments, as it is.
type rewriter struct {
	src   []byte
	edits []edit
}

type edit struct {
	at   hcl.Range
	text string
}

func (w *rewriter) body(body *hclsyntax.Body) {
	for _, attr := range body.Attributes {
		if inner := w.unwrapped(attr.Expr); inner != nil {
			w.edits = append(w.edits, edit{attr.Expr.Range(), string(inner.Range().SliceBytes(w.src))})
		}
	}
	for _, b := range body.Blocks {
		for i, r := range b.LabelRanges {
			if w.src[r.Start.Byte] != '"' {
				w.edits = append(w.edits, edit{r, `"` + b.Labels[i] + `"`})
			}
		}
		w.body(b.Body)
	}
}

// unwrapped is the expression in a quoted template that is one interpolation and nothing else, or nil. One of several
// lines, or with a comment, may mean something else without its quotes.
func (w *rewriter) unwrapped(expr hclsyntax.Expression) hclsyntax.Expression {
	wrap, ok := expr.(*hclsyntax.TemplateWrapExpr)
	if !ok {
		return nil
	}
	outer, inner := expr.Range(), wrap.Wrapped.Range()
	before, after := string(w.src[outer.Start.Byte:inner.Start.Byte]), string(w.src[inner.End.Byte:outer.End.Byte])
	if outer.Start.Line != outer.End.Line || strings.Trim(before, "~ ") != `"${` || strings.Trim(after, "~ ") != `}"` {
		return nil
	}
	if deeper := w.unwrapped(wrap.Wrapped); deeper != nil {
		return deeper
	}
	return wrap.Wrapped
}

func (w *rewriter) result() []byte {
	slices.SortFunc(w.edits, func(a, b edit) int { return cmp.Compare(a.at.Start.Byte, b.at.Start.Byte) })
	var out bytes.Buffer
	from := 0
	for _, e := range w.edits {
		out.Write(w.src[from:e.at.Start.Byte])
		out.WriteString(e.text)
		from = e.at.End.Byte
	}
	out.Write(w.src[from:])
	return out.Bytes()
}
