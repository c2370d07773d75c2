package config

import (
	"bytes"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
)

// pieceBytes is about how much of a file is lexed at a time. A token takes some
// twenty times the memory of its text, and hcl lexes what it parses as a whole:
// 100,000 locks in one go would cost half a gigabyte for tokens alone.
const pieceBytes = 64 << 10

// chunk is a part of a file that can be parsed by itself: whole blocks.
type chunk struct {
	start hcl.Pos
	end   int
}

// split cuts a native source between blocks at the top, and refuses one whose
// nesting or expressions would exhaust the stack of the parser.
func split(src []byte, filename string) ([]chunk, *hcl.Diagnostic) {
	return splitBy(src, filename, pieceBytes)
}

// splitBy is split with pieces of about the given size.
//
// The lexer starts anew at each piece, so a piece must not end in a text or a comment (quiet). Where it
// would, it is lexed again at twice the size: pieces of 1, 2, 4, ... are together less than twice the last, so
// that a heredoc of 16 MiB costs no more than two passes. Pieces are joined to chunks until all brackets are
// closed, since the parser needs whole blocks; what is joined is never lexed twice for that, because the
// count goes on from piece to piece. TestSplitFilesParseAsWholeOnes holds chunks against the whole file.
func splitBy(src []byte, filename string, piece int) ([]chunk, *hcl.Diagnostic) {
	var out []chunk
	var scan nesting
	first, at := hcl.InitialPos, hcl.InitialPos
	for size := piece; at.Byte < len(src); {
		end := lineEnd(src, at.Byte+size, piece)
		tokens, _ := hclsyntax.LexConfig(src[at.Byte:end], filename, at)
		if end < len(src) && !quiet(tokens) {
			size *= 2 // the line break stands inside of a text or a comment
			continue
		}
		size = piece
		if d := scan.add(tokens); d != nil {
			return nil, d
		}
		// Column 1: a piece ends behind a line break, or at the end of the file, where nothing follows.
		at = hcl.Pos{Line: at.Line + bytes.Count(src[at.Byte:end], []byte{'\n'}), Column: 1, Byte: end}
		if scan.depth == 0 && scan.whole || end == len(src) {
			out = append(out, chunk{first, end})
			first = at
		}
	}
	if len(out) == 0 {
		out = []chunk{{first, len(src)}}
	}
	return out, nil
}

// lineEnd returns where a piece of about this size ends: behind a block at the
// margin when there is one nearby, else behind a line.
func lineEnd(src []byte, from, near int) int {
	if from >= len(src) {
		return len(src)
	}
	window := src[from:min(len(src), from+near)]
	for _, mark := range []string{"\n}\n", "\n}\r\n", "\n"} {
		if i := bytes.Index(window, []byte(mark)); i >= 0 {
			return from + i + len(mark)
		}
	}
	if i := bytes.IndexByte(src[from:], '\n'); i >= 0 {
		return from + i + 1
	}
	return len(src)
}

// quiet reports whether the lexer is in no text and no comment behind the tokens,
// so that it can start anew there. A comment without its end is a slash and a
// star to the lexer, which stand together nowhere else.
func quiet(tokens hclsyntax.Tokens) bool {
	open := 0
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			open++
		case hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			open--
		case hclsyntax.TokenStar:
			if i > 0 && tokens[i-1].Type == hclsyntax.TokenSlash && tokens[i-1].Range.End.Byte == t.Range.Start.Byte {
				return false
			}
		}
	}
	return open == 0
}

// navigator names the block around a mistake, for snippets. It parses that part
// of the file again: keeping all blocks of all files for it would be a large part
// of what Load needs.
type navigator struct {
	src    []byte
	name   string
	json   bool
	chunks []chunk
}

// ContextString is what hcl's writers of diagnostics look for.
func (n *navigator) ContextString(offset int) string {
	var file *hcl.File
	if n.json {
		file, _ = json.Parse(n.src, n.name)
	} else {
		i := sort.Search(len(n.chunks), func(i int) bool { return n.chunks[i].end > offset })
		if i == len(n.chunks) {
			return ""
		}
		file, _ = n.chunks[i].parse(n.src, n.name)
	}
	if file == nil {
		return ""
	}
	if nav, ok := file.Nav.(interface{ ContextString(int) string }); ok {
		return nav.ContextString(offset)
	}
	return ""
}

func (c chunk) parse(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	return hclsyntax.ParseConfig(src[c.start.Byte:c.end], name, c.start)
}
