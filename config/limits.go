package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// The limits. Each is far above what a person or a generator needs and far
// below what hurts.
const (
	maxFileBytes = 16 << 20 // 100,000 locks written out one by one are about 6 MiB
	maxFiles     = 1000
	maxReadBytes = 1 << 20 // what file() reads; also a ZooKeeper packet
	maxNodes     = 200_000 // after expansion of for_each
	// The parser, the evaluator and every walk recurse on nesting and on chains
	// of operators; Go ends the process at a stack of 1 GiB.
	maxNesting   = 100
	maxOperators = 4000 // in one expression
	// A value is measured after every evaluation, so that ten locals that each
	// double the one before do not fill the memory.
	maxTextBytes     = 1 << 20 // one string
	maxValueBytes    = 64 << 20
	maxValueElements = 2_000_000
	// A number is written out in full wherever it becomes text.
	maxDigits = 400
)

// tooDeep refuses a source whose nesting or expressions would exhaust the stack
// of the parser. It must be called before parsing.
func tooDeep(src []byte, filename string, isJSON bool) *hcl.Diagnostic {
	if isJSON {
		return tooDeepJSON(src, filename)
	}
	_, d := split(src, filename)
	return d
}

func tooDeepTokens(tokens hclsyntax.Tokens) *hcl.Diagnostic {
	return (&nesting{}).add(tokens)
}

// nesting counts, over all pieces of a source, how deep brackets, blocks and
// templates stand in each other and how many operators one expression has.
type nesting struct {
	depth, operators int
	// open are the brackets that are open. Where a new list element or attribute begins, the count goes back
	// to what it was in front of the bracket, and not to zero: the expression around goes on behind it, and
	// 1+1+max(1,2)+1+... is one chain, as deep a tree as it has operators ("commas in operators" in
	// TestHostileInputIsRefused). Behind a bracket it goes on from the largest count in it: operators there
	// stand on top of whatever is in the bracket, not only of its last element ("commas in brackets").
	//
	// So operators is, at each token, no less than the depth of the tree that ends there.
	open []bracket
	// blocks is how many of the open brackets are those of blocks. Where all are, a
	// line break ends the expression.
	blocks int
	equal  bool // this line has an equals sign, so that a brace belongs to a value
	// whole: the last piece ended where something ends, and not inside of a line.
	whole bool
}

// bracket is how many operators stand in front of an open bracket, and the most there were in it so far.
type bracket struct{ before, most int }

// separate begins a new element of the innermost bracket: recursion starts over there.
func (n *nesting) separate(operators int) int {
	if len(n.open) == 0 {
		return 0
	}
	in := &n.open[len(n.open)-1]
	in.most = max(in.most, operators)
	return in.before
}

// resize opens and closes brackets until there are as many as the depth, and answers the count behind them.
func (n *nesting) resize(depth, operators int) int {
	for len(n.open) < depth {
		n.open = append(n.open, bracket{before: operators})
	}
	for len(n.open) > depth {
		operators = max(operators, n.open[len(n.open)-1].most)
		n.open = n.open[:len(n.open)-1]
	}
	return operators
}

func (n *nesting) add(tokens hclsyntax.Tokens) *hcl.Diagnostic {
	depth, operators := n.depth, n.operators
	defer func() { n.depth, n.operators = depth, operators }()
	last := hclsyntax.TokenNewline
	n.whole = len(tokens) > 1 && tokens[len(tokens)-2].Type == hclsyntax.TokenNewline
	for i, t := range tokens {
		n.follow(t.Type, last, depth)
		last = t.Type
		if t.Type == hclsyntax.TokenNewline && depth == n.blocks {
			operators, n.equal = 0, false
		}
		switch t.Type {
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
			depth++
			operators++
		case hclsyntax.TokenTemplateControl:
			// What "%{ if }" opens, its own closing brace does not close.
			depth += 1 + directiveDepth(tokens[i+1:])
			operators++
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth = max(depth-1, 0)
		case hclsyntax.TokenComma, hclsyntax.TokenEqual:
			operators = n.separate(operators)
		case hclsyntax.TokenIdent, hclsyntax.TokenNewline, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit,
			hclsyntax.TokenNumberLit, hclsyntax.TokenComment, hclsyntax.TokenEOF:
		default:
			operators++
		}
		operators = n.resize(depth, operators)
		switch {
		case depth > maxNesting:
			return nestingError(t.Range)
		case t.Type == hclsyntax.TokenNumberLit && longNumber(t.Bytes):
			return numberError(t.Range)
		case operators > maxOperators:
			return errorAt(t.Range, "Expression too long",
				fmt.Sprintf("One expression may have at most %d operators. Split it into several locals.", maxOperators))
		}
	}
	return nil
}

// follow keeps count of the braces of blocks. The depth is the one before the token.
func (n *nesting) follow(t, last hclsyntax.TokenType, depth int) {
	if depth != n.blocks {
		return // inside of an expression
	}
	switch t {
	case hclsyntax.TokenEqual:
		n.equal = true
	case hclsyntax.TokenOBrace:
		if !n.equal && (last == hclsyntax.TokenIdent || last == hclsyntax.TokenCQuote) {
			n.blocks++
		}
	case hclsyntax.TokenCBrace:
		n.blocks = max(n.blocks-1, 0)
	}
}

func directiveDepth(after hclsyntax.Tokens) int {
	if len(after) == 0 {
		return 0
	}
	switch string(after[0].Bytes) {
	case "if", "for":
		return 1
	case "endif", "endfor":
		return -1
	default:
		return 0
	}
}

// tooDeepJSON scans without parsing: brackets outside of strings count for the
// file, those inside of a string for the template it may be.
func tooDeepJSON(src []byte, filename string) *hcl.Diagnostic {
	depth, line := 0, 1
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '\n':
			line++
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := i
			for end < len(src) && bytes.IndexByte([]byte("+-.0123456789eE"), src[end]) >= 0 {
				end++
			}
			if longNumber(src[i:end]) {
				pos := hcl.Pos{Line: line, Column: 1, Byte: i}
				return numberError(hcl.Range{Filename: filename, Start: pos, End: pos})
			}
			i = end - 1
		case '"':
			start := i + 1
			for i++; i < len(src) && src[i] != '"'; i++ {
				if src[i] == '\\' {
					i++
				}
			}
			text := unescaped(src[min(start, len(src)):min(i, len(src))])
			tokens, _ := hclsyntax.LexTemplate(text, filename, hcl.Pos{Line: line, Column: 1, Byte: start})
			if d := tooDeepTokens(tokens); d != nil {
				return d
			}
		}
		if depth > maxNesting {
			pos := hcl.Pos{Line: line, Column: 1, Byte: i}
			return nestingError(hcl.Range{Filename: filename, Start: pos, End: pos})
		}
	}
	return nil
}

// unescaped is what stands between the quotation marks of a JSON string, as the parser
// will see it: \u0028 is a bracket too.
func unescaped(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	var out string
	if err := json.Unmarshal(slices.Concat([]byte{'"'}, text, []byte{'"'}), &out); err != nil {
		return nil // which the parser will refuse
	}
	return []byte(out)
}

// longNumber reports whether a number as it is written has too many digits, or an
// exponent that gives it too many.
func longNumber(text []byte) bool {
	digits, exponent, _ := bytes.Cut(bytes.ToLower(text), []byte("e"))
	n, err := strconv.Atoi(string(exponent))
	return len(digits) > maxDigits || len(exponent) > 0 && (err != nil || max(n, -n) > maxDigits)
}

func numberError(r hcl.Range) *hcl.Diagnostic {
	return errorAt(r, "Number too long", fmt.Sprintf("A number may have at most %d digits. Write it as a text if it is none to calculate with.", maxDigits))
}

func nestingError(r hcl.Range) *hcl.Diagnostic {
	return errorAt(r, "Nested too deeply",
		fmt.Sprintf("At most %d levels of brackets, blocks and templates are read. Use locals to name the inner parts.", maxNesting))
}

// tooLarge reports whether a value exceeds what one evaluation may produce. The
// count stops at the limit, which also bounds values that share their parts
// and are exponentially larger written out than in memory.
func tooLarge(v cty.Value) bool {
	w := weigher{}
	w.add(v)
	return w.over()
}

type weigher struct {
	bytes, elements, text int
	number                bool // one has too many digits
	// loose: sets are counted and not gone through, for which cty would sort them.
	loose bool
}

func (w *weigher) over() bool {
	return w.bytes > maxValueBytes || w.elements > maxValueElements || w.text > maxTextBytes || w.number
}

// tooLong reports whether a number has more than maxDigits digits before or behind
// the point: 3.33 bits are a digit. Infinity, as pow(2, 99999) makes it, has the exponent 0 and is
// let through: it is written in four letters, and no argument takes it for a number.
func tooLong(v cty.Value) bool {
	exponent := v.AsBigFloat().MantExp(nil)
	return max(exponent, -exponent) > maxDigits*10/3
}

func (w *weigher) add(v cty.Value) {
	w.elements++
	if w.over() || v == cty.NilVal {
		return
	}
	v, _ = v.Unmark()
	switch ty := v.Type(); {
	case v.IsNull() || !v.IsKnown():
	case ty == cty.String:
		w.text = max(w.text, len(v.AsString()))
		w.bytes += len(v.AsString())
	case ty == cty.Number:
		w.number = w.number || tooLong(v)
	case ty.IsSetType() && w.loose:
		w.elements += v.LengthInt()
	case ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType():
		for it := v.ElementIterator(); it.Next() && !w.over(); {
			k, e := it.Element()
			if ty.IsMapType() || ty.IsObjectType() {
				w.bytes += len(k.AsString()) // never null or marked, unlike the keys of a set
			}
			w.add(e)
		}
	}
}
