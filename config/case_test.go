package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// TestEachConfigurationGivesItsTreeOrDiagnostics loads each configuration in testdata/config/*.txtar, and compares diagnostics and trees
// with what stands there. The text before the first file says what the case guards. Files:
//
//	*.locktree.hcl, ...   the configuration
//	json/*.locktree.json  the same in JSON syntax: must give the same tree
//	vars, environ         options, one a line
//	diagnostics, tree     the expected results
func TestEachConfigurationGivesItsTreeOrDiagnostics(t *testing.T) {
	cases, err := filepath.Glob("../testdata/config/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) { runCase(t, name) })
	}
}

func runCase(t *testing.T, name string) {
	archive, err := txtar.ParseFile(name)
	require.NoError(t, err)
	require.NotEmpty(t, bytes.TrimSpace(archive.Comment), "a case must say what it guards")
	native, inJSON, opts := fstest.MapFS{}, fstest.MapFS{}, config.Options{Version: "1.2.3"}
	want := map[string]string{}
	for _, f := range archive.Files {
		switch {
		case f.Name == "vars":
			opts.Inputs = vars(lines(f.Data)...)
		case f.Name == "environ":
			opts.Environ = lines(f.Data)
		case f.Name == "diagnostics" || f.Name == "tree":
			want[f.Name] = string(f.Data)
		case strings.HasPrefix(f.Name, "json/"):
			inJSON[strings.TrimPrefix(f.Name, "json/")] = &fstest.MapFile{Data: f.Data}
		default:
			native[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	c, diags := config.LoadFS(native, ".", opts)
	got := map[string]string{"diagnostics": render(t, c, diags)}
	if !diags.HasErrors() {
		got["tree"] = dump(c, true)
	}
	if len(inJSON) > 0 {
		j, diags := config.LoadFS(inJSON, ".", opts)
		require.False(t, diags.HasErrors(), "JSON syntax:\n%s", render(t, j, diags))
		require.Equal(t, dump(c, false), dump(j, false), "JSON syntax gives another tree")
	}
	if os.Getenv("GOLDEN") != "" {
		rewrite(t, name, archive, got)
		return
	}
	require.Equal(t, want["diagnostics"], got["diagnostics"])
	require.Equal(t, want["tree"], got["tree"])
}

func rewrite(t *testing.T, name string, archive *txtar.Archive, got map[string]string) {
	kept := archive.Files[:0]
	for _, f := range archive.Files {
		if f.Name != "diagnostics" && f.Name != "tree" {
			kept = append(kept, f)
		}
	}
	for _, part := range []string{"diagnostics", "tree"} {
		if got[part] != "" {
			kept = append(kept, txtar.File{Name: part, Data: []byte(got[part])})
		}
	}
	archive.Files = kept
	require.NoError(t, os.WriteFile(name, txtar.Format(archive), 0o666))
}

// vars are settings of the command line.
func vars(settings ...string) []config.Input {
	var out []config.Input
	for _, s := range settings {
		out = append(out, config.Input{Var: s})
	}
	return out
}

func lines(data []byte) []string {
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func render(t *testing.T, c *config.Config, diags hcl.Diagnostics) string {
	var b strings.Builder
	require.NoError(t, hcl.NewDiagnosticTextWriter(&b, c.Sources, 0, false).WriteDiagnostics(diags))
	for _, d := range diags {
		require.NotNil(t, d.Subject, "%s: a diagnostic without a place", d.Summary)
		require.NotEmpty(t, d.Detail, "%s: a diagnostic that does not say why", d.Summary)
	}
	return b.String()
}

// dump writes what a configuration means, hashes of digests included.
func dump(c *config.Config, origins bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "stack %s\n", c.Stack)
	for _, e := range c.Ensembles {
		fmt.Fprintf(&b, "ensemble %s %v root %s session %s connect %s", e.Name, e.Servers, e.Root, e.SessionTimeout, e.ConnectTimeout)
		if e.TLS != nil {
			fmt.Fprintf(&b, " tls %+v", *e.TLS)
		}
		for _, a := range e.Auth {
			user, _, _ := strings.Cut(string(a.Credentials), ":")
			fmt.Fprintf(&b, " auth %s:%s:%s", a.Scheme, user, a.Credentials)
		}
		b.WriteString("\n")
		for _, n := range e.Tree.Nodes {
			fmt.Fprintf(&b, "%s\n    %s", n.Path, n.Addr)
			if origins {
				fmt.Fprintf(&b, " at %s", n.Origin)
			}
			payload, err := n.Payload.Encode()
			if err != nil {
				panic("payload of " + string(n.Addr) + ": " + err.Error()) // Load validates every parameter
			}
			fmt.Fprintf(&b, "\n    [%v] world %v lockout %v\n    %s\n", n.ACL, n.AllowWorld, n.AllowLockout, payload)
		}
	}
	for _, e := range c.Ensembles {
		for _, v := range e.Tree.Intent.Moves {
			fmt.Fprintf(&b, "%s moved %s to %s one %v\n", e.Name, v.From, v.To, v.One)
		}
		for _, v := range e.Tree.Intent.Imports {
			fmt.Fprintf(&b, "%s import %s as %s\n", e.Name, v.Path, v.To)
		}
		if a := e.Tree.Intent.Access; a != nil {
			fmt.Fprintf(&b, "%s admins %v readers %v\n", e.Name, a.Admins, a.Readers)
		}
		for _, v := range e.Tree.Intent.Removals {
			fmt.Fprintf(&b, "%s removed %s destroy %v\n", e.Name, v.From, v.Destroy)
		}
	}
	for _, k := range c.Checks {
		fmt.Fprintf(&b, "%s %s %q\n", k.Addr, k.Verdict, k.Problems)
	}
	for _, o := range c.Outputs {
		fmt.Fprintf(&b, "output %s %s %s %v\n", o.Name, o.Type, o.Value, o.Sensitive)
	}
	return b.String()
}

// loadText loads one native file.
func loadText(src string, opts config.Options) (*config.Config, hcl.Diagnostics) {
	return config.LoadFS(fstest.MapFS{"main.locktree.hcl": {Data: []byte(src)}}, ".", opts)
}

// preamble is what a configuration needs around the part a test is about.
const preamble = `
locktree {
  stack = "test"
}
ensemble "main" {
  servers = ["zk1:2181"]
  auth "digest" {
    username = "us"
    password = env("PASSWORD")
  }
}
`

var testEnviron = []string{"PASSWORD=correct horse"}

// mustLoad loads preamble and src, which must have no mistake.
func mustLoad(t testing.TB, src string) *config.Config {
	t.Helper()
	c, diags := loadText(preamble+src, config.Options{Environ: testEnviron})
	require.False(t, diags.HasErrors(), "%v", diags)
	return c
}

// TestCommonMistakesAreDiagnosed loads the common mistakes in testdata/mistakes.txtar, and compares the diagnostics with those recorded
// there. Each file is a mistake, and the file of that name with "shown" in front has its diagnostics. Each is loaded with the file that
// every configuration needs, and with a module m.
func TestCommonMistakesAreDiagnosed(t *testing.T) {
	const name, shown = "../testdata/mistakes.txtar", "shown: "
	archive, err := txtar.ParseFile(name)
	require.NoError(t, err)
	want := map[string]string{}
	for _, f := range archive.Files {
		if of, ok := strings.CutPrefix(f.Name, shown); ok {
			want[of] = string(f.Data)
		}
	}
	var all []txtar.File
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, shown) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			c, diags := config.LoadFS(fstest.MapFS{
				"locktree.locktree.hcl": {Data: []byte(preamble)}, "main.locktree.hcl": {Data: f.Data},
				"m/m.locktree.hcl": {Data: []byte("variable \"name\" {}\noutput \"name\" { value = var.name }\n")},
			}, ".", config.Options{Environ: testEnviron})
			got := render(t, c, diags)
			all = append(all, f, txtar.File{Name: shown + f.Name, Data: []byte(got)})
			require.True(t, diags.HasErrors())
			if os.Getenv("GOLDEN") == "" {
				require.Equal(t, want[f.Name], got)
			}
		})
	}
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(name, txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: all}), 0o666))
	}
}
