package config

import (
	"fmt"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
)

// checkVersion looks for required_version in a body and nothing else, so that it
// works on a file whose language this program does not know. The diagnostics of the
// two bodies are dropped for that reason: when the version fits, decodeBody finds the same
// errors.
func (m *module) checkVersion(body hcl.Body) *hcl.Diagnostic {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "locktree"}}})
	for _, b := range content.Blocks {
		inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "required_version"}}})
		if a := inner.Attributes["required_version"]; a != nil {
			if d := m.checkConstraint(a); d != nil {
				return d
			}
		}
	}
	return nil
}

func (m *module) checkConstraint(a *hcl.Attribute) *hcl.Diagnostic {
	text, ok := constantText(a.Expr)
	if !ok {
		return errorAt(a.Expr.Range(), "Invalid version constraint", `required_version must be a literal string, such as ">= 1.2.0", because it is read before anything else.`)
	}
	want, err := version.NewConstraint(text)
	if err != nil {
		return errorAt(a.Expr.Range(), "Invalid version constraint", fmt.Sprintf(`%q is not a version constraint: write it as ">= 1.2.0" or "~> 1.2".`, text))
	}
	have, err := version.NewVersion(m.opts.Version)
	if err != nil {
		return nil // a build without a version
	}
	// A pre-release of 1.2.0 speaks the language of 1.2.0.
	if want.Check(have.Core()) {
		return nil
	}
	return errorAt(a.Expr.Range(), "Unsupported locktree version", fmt.Sprintf(
		"This configuration requires locktree %s; this is %s. Install a version that fits, or change required_version.", want, have))
}
