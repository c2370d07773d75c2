package config

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// FromEnvironment returns the ensemble that the environment alone describes, as an
// ensemble block without arguments would: ZOOKEEPER_SERVERS, ZOOKEEPER_USERNAME and
// ZOOKEEPER_PASSWORD. nil without an error: no servers are set. It is for commands that
// name a path and need no configuration; nothing is declared on it.
func FromEnvironment(environ []string) (*Ensemble, error) {
	r := &report{}
	m := newModule(&sources{files: map[string]*hcl.File{}, report: r}, Options{Environ: environ})
	e, s := &Ensemble{Name: "environment", Root: "/"}, scope{m: m, d: &decl{}}
	m.serversOfEnvironment(s, e)
	m.authOfEnvironment(s, e)
	if r.diags.HasErrors() {
		var texts []string
		for _, d := range r.sorted() {
			texts = append(texts, d.Detail)
		}
		return nil, errors.New(strings.Join(texts, " "))
	}
	if len(e.Servers) == 0 {
		return nil, nil
	}
	return e, nil
}
