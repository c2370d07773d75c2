package view

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// Explain shows an error: what failed, where, why, and what to do next. The packages that make the
// errors word them; what is worded here is of the command: its blocks and environment variables.
func Explain(err error) hcl.Diagnostics {
	x := explain(err)
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: x.Summary, Detail: x.Text(), Extra: Address(x.Addr)}}
}

// Brief is an error in one line, as pages show it.
func Brief(err error) string {
	x := explain(err)
	if x.Detail == "" {
		return Clean(full(x.Summary))
	}
	return Clean(x.String())
}

const credentialsAre = "The credentials are an auth block of the ensemble, or ZOOKEEPER_USERNAME and ZOOKEEPER_PASSWORD."

func explain(err error) plan.Explanation {
	var explained plan.Explainer
	switch {
	case errors.As(err, &explained):
	case errors.Is(err, recipes.ErrUnreachable):
		return plan.Explanation{
			Summary: "Cannot reach ZooKeeper", Detail: full(strings.TrimPrefix(Sentence(err), "ZooKeeper unreachable: ")),
			Next: "Check that these servers run, and that this machine reaches them. The ensemble block names them, or ZOOKEEPER_SERVERS; " +
				"connect_timeout limits how long the command waits, and a tls block or ZOOKEEPER_TLS_ENABLED encrypts the connection.",
		}
	case errors.Is(err, recipes.ErrAuth):
		return plan.Explanation{Summary: "ZooKeeper refused the authentication", Detail: full(Sentence(err)) + " " + credentialsAre}
	}
	return plan.Explain(err)
}

// inner is what an error says of what failed, without what to do next.
func inner(err error) string {
	x := explain(err)
	if x.Detail == "" {
		return full(x.Summary)
	}
	return x.Detail
}

// Sentence is an error's text without the name of the package that made it.
func Sentence(err error) string { return plan.Plain(err.Error()) }

// full makes a sentence of an error's text: errors start small and end open,
// because they may be put into others.
func full(text string) string {
	if text == "" {
		return ""
	}
	return upperFirst(strings.TrimSuffix(text, ".")) + "."
}

func upperFirst(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
