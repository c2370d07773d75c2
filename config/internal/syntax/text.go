package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"golang.org/x/text/unicode/norm"
)

var (
	errNotUTF8 = errors.New("is not valid UTF-8")
	errNotNFC  = errors.New("is not in Unicode's form NFC, so expressions would change its bytes")
	errJoins   = errors.New("begins with a character that merges with the one before it, so expressions could change its bytes")
	errMark    = errors.New("begins with a byte order mark, which would be lost")
)

// TextError says why no expression can hold a text as it is; nil if one can. The language works on text in Unicode's form NFC, and
// converts all other text without a message. ZooKeeper compares the bytes of names and passwords. In NFC, some characters merge
// with the one before. A text that begins with such a character changes when an expression appends it to another text.
func TextError(text string) error {
	switch {
	case !utf8.ValidString(text):
		return errNotUTF8
	case !norm.NFC.IsNormalString(text):
		return errNotNFC
	case text != "" && !norm.NFC.PropertiesString(text).BoundaryBefore():
		return errJoins
	}
	return nil
}

// plainText is the text of a file without a byte order mark, and with the line ends of Unix. Both depend on the program that
// checked the file out, and must not change what a description says.
func plainText(src []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), []byte("\r\n"), []byte("\n"))
}

// maxNesting bounds how deep brackets, blocks and templates are inside each other, where each operator of an expression counts as a
// level. Parsers and evaluators recurse that deep, and no program survives the end of its stack.
const maxNesting = 1000

const (
	wouldChange   = "Text that would change"
	nestedTooDeep = "Nested too deep"
	givenTwice    = "Key given twice"
)

// QuotesNothing reports whether an error is ours. HCL's errors may quote the text around them.
func QuotesNothing(d *hcl.Diagnostic) bool {
	return d.Summary == wouldChange || d.Summary == nestedTooDeep || d.Summary == givenTwice
}

const tooDeep = "This is nested more than %d levels deep, where brackets, blocks, templates and operators count. Name parts of it in locals."

// depth follows tokens into brackets.
type depth struct {
	levels []level
	total  int
}

// level is an open bracket, and the operators in it since its last separator.
type level struct {
	operators int
	lines     bool // a line end separates, too
}

// enter counts one token. The parameter next is the token after it. If the tokens are nested too deep, enter returns false.
func (d *depth) enter(t hclsyntax.TokenType, next []byte) bool {
	if len(d.levels) == 0 {
		d.levels = append(d.levels, level{lines: true})
	}
	top := &d.levels[len(d.levels)-1]
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
		hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		if t == hclsyntax.TokenTemplateControl { // the text between if and endif, or for and endfor, is inside
			in := map[string]int{"if": 1, "for": 1, "endif": -1, "endfor": -1}[string(next)]
			top.operators, d.total = top.operators+in, d.total+in
		}
		d.levels = append(d.levels, level{lines: t == hclsyntax.TokenOBrace && string(next) != "for"})
		d.total++
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc,
		hclsyntax.TokenTemplateSeqEnd:
		if len(d.levels) == 1 {
			break
		}
		d.total -= 1 + top.operators
		d.levels = d.levels[:len(d.levels)-1]
		if t == hclsyntax.TokenCBrack || t == hclsyntax.TokenCParen { // a[0][0] is an element of an element
			d.levels[len(d.levels)-1].operators++
			d.total++
		}
	case hclsyntax.TokenComma, hclsyntax.TokenNewline:
		if t == hclsyntax.TokenComma || top.lines {
			d.total -= top.operators
			top.operators = 0
		}
	case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
		hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
		hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenQuestion, hclsyntax.TokenDot:
		top.operators, d.total = top.operators+1, d.total+1
	}
	return d.total <= maxNesting
}

// checkTokens finds what must not get to the parser: text that would be changed, and nesting that ends the program.
func checkTokens(tokens hclsyntax.Tokens) (diags hcl.Diagnostics) {
	var d depth
	for i, t := range tokens {
		var next []byte
		if i+1 < len(tokens) {
			next = tokens[i+1].Bytes
		}
		if !d.enter(t.Type, next) {
			return append(diags, ErrorAt(t.Range, nestedTooDeep, fmt.Sprintf(tooDeep, maxNesting)))
		}
		text := string(t.Bytes)
		switch t.Type {
		case hclsyntax.TokenQuotedLit:
			if strings.Contains(text, `\u`) || strings.Contains(text, `\U`) {
				text, _ = hclsyntax.ParseStringLiteralToken(t)
			}
		case hclsyntax.TokenStringLit, hclsyntax.TokenIdent:
		default:
			continue
		}
		// HCL splits a literal behind a line end and behind $${ and %%{. No character merges with those.
		rest := i > 0 && (tokens[i-1].Type == hclsyntax.TokenQuotedLit || tokens[i-1].Type == hclsyntax.TokenStringLit)
		if err := TextError(text); err != nil && !(rest && err == errJoins) {
			if diags = append(diags, ErrorAt(t.Range, wouldChange, fmt.Sprintf(changes, err))); len(diags) == Repeats {
				return diags
			}
		}
	}
	return diags
}

// changes is the message for text whose bytes would change.
const changes = "This text %v. Convert it to NFC, or use another text: \"Text is bytes\" in docs/language.md says more."

// replacements counts the characters U+FFFD that are written in a literal, as such or as an escape.
func replacements(literal string) int {
	return strings.Count(literal, "\ufffd") + strings.Count(strings.ToLower(literal), "fffd")
}

// CheckJSON is checkTokens for JSON. In a configuration, strings are templates.
func CheckJSON(src []byte, templates bool) (at int, summary, detail string) {
	deep := 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '{', '[':
			if deep++; deep > maxNesting {
				return i, nestedTooDeep, fmt.Sprintf(tooDeep, maxNesting)
			}
		case '}', ']':
			deep = max(deep-1, 0)
		case '"':
			end := i + 1
			for end < len(src) && src[end] != '"' {
				if src[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(src) {
				return -1, "", "" // the parser reports that
			}
			literal := src[i : end+1]
			text := string(literal[1 : len(literal)-1])
			if bytes.IndexByte(literal, '\\') >= 0 {
				if json.Unmarshal(literal, &text) == nil && strings.Count(text, "\ufffd") > replacements(string(literal)) {
					text = "\xff" // half of a surrogate pair is no valid text
				}
			}
			err := TextError(text)
			if templates && err == nil && strings.HasPrefix(text, "\ufeff") {
				err = errMark
			}
			if err != nil {
				return i, wouldChange, fmt.Sprintf(changes, err)
			}
			if templates && (strings.Contains(text, "${") || strings.Contains(text, "%{")) {
				tokens, _ := hclsyntax.LexTemplate([]byte(text), "", hcl.InitialPos)
				if diags := checkTokens(tokens); len(diags) > 0 {
					return i, diags[0].Summary, diags[0].Detail
				}
			}
			i = end
		}
	}
	return -1, "", ""
}

// positionOf is the range of one byte.
func positionOf(src []byte, at int, shown string) hcl.Range {
	line := bytes.LastIndexByte(src[:at], '\n') + 1
	start := hcl.Pos{Line: 1 + bytes.Count(src[:at], []byte("\n")), Column: 1 + utf8.RuneCount(src[line:at]), Byte: at}
	return hcl.Range{Filename: shown, Start: start, End: hcl.Pos{Line: start.Line, Column: start.Column + 1, Byte: at + 1}}
}

// repeatedKeys reports keys that an object literal has twice: HCL takes the last one without a word.
func repeatedKeys(in hclsyntax.Node) (diags hcl.Diagnostics) {
	_ = hclsyntax.VisitAll(in, func(n hclsyntax.Node) hcl.Diagnostics {
		object, ok := n.(*hclsyntax.ObjectConsExpr)
		if !ok {
			return nil
		}
		first := map[string]hcl.Range{}
		for _, item := range object.Items {
			v, wrong := item.KeyExpr.Value(nil)
			if !wrong.HasErrors() {
				v, _ = convert.Convert(v, cty.String)
			}
			if wrong.HasErrors() || v == cty.NilVal || v.IsNull() || !v.IsKnown() {
				continue
			}
			key, at := v.AsString(), item.KeyExpr.Range()
			if before, twice := first[key]; twice {
				diags = append(diags, ErrorAt(at, givenTwice, fmt.Sprintf("This object has that key already, in line %d. Remove one of the two.", before.Start.Line)))
				continue
			}
			first[key] = at
		}
		return nil
	})
	return diags
}
