package config

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/syntax"
)

// Nothing is left out of a configuration without a message, whatever was forgotten.
func TestWhatFailsInSilenceIsAnError(t *testing.T) {
	for _, fail := range []func(e *eval.Evaluation){
		func(e *eval.Evaluation) { e.Of(e.Declared.Named["local"]["a"]).Failed = true },
		func(e *eval.Evaluation) { e.Instances[0].Failed = true },
	} {
		files := fstest.MapFS{"x.locktree.hcl": {Data: []byte("locktree { stack = \"s\" }\nensemble \"e\" {\nauth \"digest\" {\nusername = \"u\"\npassword = \"p\"\n}\n}\nlocals { a = 1 }\nmutex \"m\" {}\n")}}
		r, c := &syntax.Report{Dir: "."}, &Config{}
		e := evaluate(map[string]*hcl.File{}, r, Options{}, within(files))
		require.False(t, r.Diags.HasErrors())
		fail(e)
		c.build(e)
		require.Contains(t, fmt.Sprint(r.Sorted().Errs()), "no reason was given")
		require.Empty(t, c.Ensembles)
	}
}
