package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/locktree/locktree/config/internal/syntax"
)

// Format returns src in the canonical layout. The name decides between native and JSON syntax; JSON, which has no canonical
// layout, is returned as it is. A source that does not parse is returned unchanged, with the reasons.
func Format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	isJSON := strings.HasSuffix(filename, ".json")
	r := &syntax.Report{}
	if len(src) > syntax.MaxFileBytes {
		r.Errorf(syntax.FileStart(filename), "Cannot read the file", "The file is larger than %d MiB.", syntax.MaxFileBytes>>20)
		return src, r.Sorted()
	}
	_, diags := syntax.ParseFile(src, filename, isJSON)
	r.Add(syntax.Causes(diags)...)
	if isJSON || r.Diags.HasErrors() {
		return src, r.Sorted()
	}
	// hclwrite treats newlines inside a heredoc's interpolation as code, and indents the text after them.
	bodies := [][]byte{}
	without := heredocs(src, func(body []byte) []byte {
		bodies = append(bodies, body)
		return nil
	})
	next := -1
	return heredocs(hclwrite.Format(without), func(body []byte) []byte {
		if next++; next < len(bodies) {
			return bodies[next]
		}
		return body
	}), r.Sorted()
}

// heredocs replaces the lines of each heredoc.
func heredocs(src []byte, with func(body []byte) []byte) []byte {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	var out []byte
	last, start, depth := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOHeredoc:
			if depth++; depth == 1 {
				start = t.Range.End.Byte
			}
		case hclsyntax.TokenCHeredoc:
			if depth--; depth == 0 {
				out = append(append(out, src[last:start]...), with(src[start:t.Range.Start.Byte])...)
				last = t.Range.Start.Byte
			}
		}
	}
	return append(out, src[last:]...)
}

// ReadFile reads a file as a configuration is read: a regular one, of at most 16 MiB.
func ReadFile(name string) ([]byte, error) { return syntax.ReadFile(name) }

// TextError says why no expression can hold a text as it is; nil if one can. The language works on text in Unicode's form NFC, and
// converts all other text without a message. ZooKeeper compares the bytes of names and passwords. In NFC, some characters merge
// with the one before. A text that begins with such a character changes when an expression appends it to another text.
func TextError(text string) error { return syntax.TextError(text) }
