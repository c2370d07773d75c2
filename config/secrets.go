package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// secrets are the sensitive texts met so far. They are taken out of every
// diagnostic: marks keep us from quoting a value, but a library below may quote
// one in an error of its own (a duplicate key, a failed conversion).
type secrets struct{ texts map[string]bool }

// minSecret is the shortest text that is taken out. A shorter one stands in
// half of all words, so that replacing it would tell it instead.
const minSecret = 4

func (s *secrets) add(text string) {
	if len(text) < minSecret {
		return
	}
	if s.texts == nil {
		s.texts = map[string]bool{}
	}
	s.texts[text] = true
}

// collect adds every text inside of a value.
func (s *secrets) collect(v cty.Value) {
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v, _ = v.Unmark(); v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
			s.add(v.AsString())
		}
		return true, nil
	})
}

// redact takes the texts out, longest first: one may contain another, and a [strings.Replacer]
// tries them at each place in the order in which it is given them.
func (s *secrets) redact(diags hcl.Diagnostics) {
	if len(s.texts) == 0 {
		return
	}
	var pairs []string
	texts := make([]string, 0, len(s.texts))
	for t := range s.texts {
		texts = append(texts, t)
	}
	slices.SortFunc(texts, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	for _, t := range texts {
		pairs = append(pairs, t, redacted)
	}
	r := strings.NewReplacer(pairs...)
	for i, d := range diags {
		c := *d
		c.Summary, c.Detail = r.Replace(d.Summary), r.Replace(d.Detail)
		diags[i] = &c
	}
}
