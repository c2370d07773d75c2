package config

import (
	"bytes"
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
	if d := tooDeep(src, filename, isJSON); d != nil {
		r.add(d)
		return src, r.sorted()
	}
	_, diags := parseFile(src, filename, isJSON)
	r.add(diags...)
	if isJSON || r.hasErrors() {
		return src, r.sorted()
	}
	f, diags := hclwrite.ParseConfig(src, filename, hcl.InitialPos)
	r.add(diags...)
	if r.hasErrors() {
		return src, r.sorted()
	}
	formatBody(f.Body())
	return hclwrite.Format(f.Bytes()), r.sorted()
}

// formatBody rewrites what hclwrite's layout leaves alone: "${x}" becomes x, which
// means the same and is how the language was written before expressions could
// stand alone; labels are quoted, and nothing stands between them.
func formatBody(body *hclwrite.Body) {
	for name, attr := range body.Attributes() {
		tokens := attr.Expr().BuildTokens(nil)
		if inner, ok := unwrapTemplate(tokens); ok {
			body.SetAttributeRaw(name, inner)
		}
	}
	for _, b := range body.Blocks() {
		if labels := b.Labels(); len(labels) > 0 {
			b.SetLabels(labels)
		}
		formatBody(b.Body())
	}
}

// unwrapTemplate returns what stands in a template that is one interpolation
// and nothing else.
func unwrapTemplate(tokens hclwrite.Tokens) (hclwrite.Tokens, bool) {
	n := len(tokens)
	if n < 5 || tokens[0].Type != hclsyntax.TokenOQuote || tokens[1].Type != hclsyntax.TokenTemplateInterp ||
		tokens[n-2].Type != hclsyntax.TokenTemplateSeqEnd || tokens[n-1].Type != hclsyntax.TokenCQuote {
		return nil, false
	}
	// "~" strips space around the interpolation, of which there is none.
	if bytes.ContainsRune(tokens[1].Bytes, '~') || bytes.ContainsRune(tokens[n-2].Bytes, '~') {
		return nil, false
	}
	inner, depth := tokens[2:n-2], 0
	for _, t := range inner {
		switch t.Type {
		case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			depth++
		case hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			depth--
		case hclsyntax.TokenNewline:
			return nil, false // would end the argument
		}
		if depth < 0 {
			return nil, false // "${a}${b}": the first brace does not belong to the last
		}
	}
	return trimSpaces(inner), true
}

func trimSpaces(tokens hclwrite.Tokens) hclwrite.Tokens {
	if len(tokens) > 0 {
		tokens[0].SpacesBefore = 1
	}
	return tokens
}
