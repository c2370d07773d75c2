package view

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
)

func writeJSON(w io.Writer, indent string, v any) {
	enc := json.NewEncoder(visibleJSON{w})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	_ = enc.Encode(v) // standard output keeps the error of a write, and the command reports it
}

func (v Version) json(m *machine) {
	m.document(struct {
		Version       string `json:"locktree_version"`
		Platform      string `json:"platform"`
		Revision      string `json:"revision"`
		Modified      bool   `json:"modified"`
		PayloadFormat int    `json:"payload_format"`
	}(v))
}

// Saved writes plans and checks as one document.
func (p Saved) json(m *machine) { m.document(plan.Document(m.version, p.Checks, p.Plans...)) }

// Validation writes Terraform's validate -json.
func (v Validation) json(m *machine) {
	errors := len(v.Diagnostics.Errs())
	m.document(struct {
		FormatVersion string           `json:"format_version"`
		Valid         bool             `json:"valid"`
		ErrorCount    int              `json:"error_count"`
		WarningCount  int              `json:"warning_count"`
		Diagnostics   []diagnosticJSON `json:"diagnostics"`
	}{"1.0", errors == 0, errors, len(v.Diagnostics) - errors, diagnosticsJSON(v.Diagnostics, v.Files)})
}

// Outputs writes the object of Terraform's output -json.
func (outputs Outputs) json(m *machine) { m.document(outputsJSON(outputs)) }

func outputsJSON(outputs []plan.Output) map[string]document.Output {
	out := map[string]document.Output{}
	for _, o := range outputs {
		out[o.Name] = o.Document()
	}
	return out
}

// Live writes the trees in the form of Terraform's show -json of a state.
func (trees Live) json(m *machine) {
	m.document(plan.StateDocument(m.version, outputsJSON(StoredOutputs(trees)), trees...))
}

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
