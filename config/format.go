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

func format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	isJSON := strings.HasSuffix(filename, ".json")
	r := &report{}
	if len(src) > maxFileBytes {
		r.errorf(fileStart(filename), "Cannot read the file", "The file is larger than %d MiB.", maxFileBytes>>20)
		return src, r.sorted()
	}
	file, diags := parseFile(src, filename, isJSON)
	r.add(causes(diags)...)
	if isJSON || r.hasErrors() {
		return src, r.sorted()
	}
	w := rewriter{src: src}
	w.body(file.Body.(*hclsyntax.Body), true, false)
	return hclwrite.Format(w.result()), r.sorted()
}

// rewriter changes what hclwrite's layout leaves alone, as "terraform fmt" does:
// "${x}" becomes x, which means the same and is how the language was written before
// expressions could stand alone; labels are quoted; type constraints are not. It
// replaces parts of the text and leaves the rest, and so all comments, as it is.
type rewriter struct {
	src   []byte
	edits []edit
}

type edit struct {
	at   hcl.Range
	text string
}

func (w *rewriter) replace(at hcl.Range, text string) { w.edits = append(w.edits, edit{at, text}) }

// body rewrites what is in the file itself (top), in a variable or in another
// block. Only variables have types.
func (w *rewriter) body(body *hclsyntax.Body, top, variable bool) {
	for name, attr := range body.Attributes {
		old := textAt(w.src, attr.Expr.Range())
		if text := typeConstraint(old); variable && name == "type" {
			if text != "" {
				w.replace(attr.Expr.Range(), text)
			}
		} else if text := unwrap(attr.Expr, w.src); text != old {
			w.replace(attr.Expr.Range(), text)
		}
	}
	for _, b := range body.Blocks {
		for i, r := range b.LabelRanges {
			if w.src[r.Start.Byte] != '"' {
				w.replace(r, `"`+b.Labels[i]+`"`)
			}
		}
		w.body(b.Body, false, top && b.Type == "variable")
	}
}

// textAt is the text of a range.
func textAt(src []byte, r hcl.Range) string { return string(src[r.Start.Byte:r.End.Byte]) }

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

// typeConstraint is how a type is written today that is written as it was in old
// configurations, where it could only mean that; "" for all others. None of the old
// ones is accepted when a configuration is loaded.
func typeConstraint(old string) string {
	switch old {
	case "list", "map", "set":
		return old + "(any)"
	case `"list"`, `"map"`:
		return old[1:len(old)-1] + "(string)"
	case `"string"`, `"number"`, `"bool"`, `"any"`:
		return old[1 : len(old)-1]
	default:
		return ""
	}
}

// unwrap returns what is in a quoted template that is one interpolation and
// nothing else, in parentheses when it would end with its first line. Other
// expressions it returns as they are.
func unwrap(expr hclsyntax.Expression, src []byte) string {
	text := textAt(src, expr.Range())
	wrap, ok := expr.(*hclsyntax.TemplateWrapExpr)
	if !ok || !strings.HasPrefix(text, `"${`) || !strings.HasSuffix(text, `}"`) {
		return text
	}
	// "~" strips the space around the interpolation, of which there is none.
	text = strings.TrimPrefix(strings.TrimPrefix(text, `"${`), "~")
	text = strings.TrimSuffix(strings.TrimSuffix(text, `}"`), "~")
	inner := textAt(src, wrap.Wrapped.Range())
	before, after, _ := strings.Cut(text, inner)
	return enclose(before + unwrap(wrap.Wrapped, src) + after)
}

// enclose cuts off the space and the empty lines around an expression, and puts
// parentheses around it when it could not stand behind an equals sign without them:
// a line ends outside of all brackets.
func enclose(text string) string {
	text = strings.TrimSpace(text)
	// The end mark of a heredoc is one only with a line break.
	tokens, _ := hclsyntax.LexExpression([]byte(text+"\n"), "", hcl.InitialPos)
	depth, open, last := 0, false, ""
	for _, t := range tokens {
		breaks := false
		switch t.Type {
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrack, hclsyntax.TokenOBrace, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenTemplateSeqEnd:
			depth--
		case hclsyntax.TokenNewline:
			breaks = t.Range.Start.Byte < len(text)
		case hclsyntax.TokenCHeredoc:
			breaks = true
		case hclsyntax.TokenComment:
			breaks = bytes.HasSuffix(t.Bytes, []byte("\n"))
		}
		if breaks && depth == 0 {
			open = true
			if t.Range.End.Byte >= len(text) {
				last = "\n" // what ends here needs the line break
			}
		}
	}
	if open {
		return "(" + text + last + ")"
	}
	return text
}
