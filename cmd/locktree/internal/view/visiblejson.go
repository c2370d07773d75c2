package view

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// visibleJSON escapes in JSON what clean escapes in text. People look at JSON on terminals, and encoding/json leaves
// characters as they are that control those (C1), turn text around or cannot be seen. The value stays the same.
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
		// ASCII but DEL is syntax or was escaped. What is no UTF-8 is U+FFFD for who reads it, too.
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
