package view

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// visibleJSON escapes in JSON what clean escapes in text. People read JSON on terminals, and encoding/json does not escape
// characters that control those (C1), reverse text or are invisible. The value stays the same.
type visibleJSON struct{ w io.Writer }

// Write is given whole documents by json.Encoder, so no character is in two parts.
func (v visibleJSON) Write(p []byte) (int, error) {
	if _, err := v.w.Write(VisibleJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// VisibleJSON is for a document that the commands print themselves.
func VisibleJSON(doc []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(doc); {
		r, size := rune(doc[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(doc[i:])
		}
		// ASCII except DEL is syntax, or was escaped. A reader takes invalid UTF-8 for U+FFFD, too.
		if r > '~' && (!unicode.IsPrint(r) || r == utf8.RuneError) {
			out = append(out, doc[done:i]...)
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, "\\u%04x", unit)
			}
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return doc
	}
	return append(out, doc[done:]...)
}
