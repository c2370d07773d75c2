package config_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/config"
)

func TestFormatAlignsIndentsAndKeepsComments(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"aligns and indents": {"a {\nlong = 1\n  b=2 # why\n}\n", "a {\n  long = 1\n  b    = 2 # why\n}\n"},
		"indents lists":      {"a = [\n1,\n      { b = 1\n},\n]\n", "a = [\n  1,\n  { b = 1\n  },\n]\n"},
		"keeps empty lines":  {"\na = 1  \n  \n\nb {\n\n}\n", "\na = 1\n\n\nb {\n\n}\n"},
		"keeps comments":     {"// one\na = 1 /* two */\nb \"c\" { # three\n  # four\n} // five\n# six", "// one\na = 1 /* two */\nb \"c\" { # three\n  # four\n} // five\n# six"},
		"keeps heredocs":     {"a {\nb = <<-E\n    x\n      ${f(\n        y,\n      )}\n  E\n  c=1\n}\n", "a {\n  b = <<-E\n    x\n      ${f(\n        y,\n      )}\n  E\n  c = 1\n}\n"},
		"keeps line ends":    {"a = 1\r\n\r\nc   = 1\r\n", "a = 1\r\n\r\nc = 1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, diags := config.Format([]byte(c.in), "x.locktree.hcl")
			require.Empty(t, diags)
			require.Equal(t, c.want, string(out))
			requireSameMeaning(t, []byte(c.in), out)
		})
	}
}

func TestFormatLeavesWhatItCannotReadAlone(t *testing.T) {
	for name, src := range map[string]string{
		"x.locktree.hcl":  "a = \n",
		"y.locktree.json": `{"a": }`,
		"z.locktree.hcl":  strings.Repeat("a = [", 200),
	} {
		out, diags := config.Format([]byte(src), name)
		require.True(t, diags.HasErrors(), name)
		require.Equal(t, src, string(out))
	}
	out, diags := config.Format([]byte(`{ "a":1 }`), "y.locktree.json")
	require.Empty(t, diags)
	require.Equal(t, `{ "a":1 }`, string(out))
}

// Formatting keeps the meaning, and formatting once more changes nothing.
func TestFormatIsIdempotentAndKeepsTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := preamble + drawTree(t)
		once, diags := config.Format([]byte(src), "x.locktree.hcl")
		require.Empty(t, diags)
		twice, diags := config.Format(once, "x.locktree.hcl")
		require.Empty(t, diags)
		require.Equal(t, string(once), string(twice))
		before, diags := loadText(src, config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v\n%s", diags, src)
		after, diags := loadText(string(once), config.Options{Environ: testEnviron})
		require.False(t, diags.HasErrors(), "%v\n%s", diags, once)
		require.Equal(t, dump(before, false), dump(after, false))
	})
}

// drawExpression draws an expression as it may stand between brackets, where lines end anywhere, with comments and heredocs. Each digit 1
// in a form is replaced by a further expression.
func drawExpression(t *rapid.T, depth int) string {
	space := func() string {
		return rapid.SampledFrom([]string{"", " ", "\n", " # c\n", "/* d */", "\n\n"}).Draw(t, "space")
	}
	forms := []string{"a.b", "1", `"t"`, "<<E\nx ${y}\nE\n", "<<-E\n  x\n  E\n", "<<-E\n  x ${f(\n      1,\n  )}\n  E\n"}
	if depth < 4 {
		forms = append(forms, "(1)", "[1, 1]", "f(1)", "{ k = 1\n}", "1+1", "1?1:1", "[for k in 1: k]", `"${1}"`, `"${~1~}"`, `"-${1}${1}"`, `"%{ if x }${1}%{ endif }"`)
	}
	form := rapid.SampledFrom(forms).Draw(t, "expression")
	var b strings.Builder
	for i, part := range strings.Split(form, "1") {
		if i > 0 {
			b.WriteString(space())
			if form == "1" {
				b.WriteString("1")
			} else {
				b.WriteString(drawExpression(t, depth+1))
			}
			b.WriteString(space())
		}
		b.WriteString(part)
	}
	return b.String()
}

func TestFormatKeepsTheMeaningOfAnyExpression(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		expr := `"${` + drawExpression(rt, 0) + `}"`
		src := []byte(rapid.SampledFrom([]string{"a = " + expr + "\n", "b {\na = " + expr + " # x\nlong = 1\n}\n", "b { a = " + expr + " }\n"}).Draw(rt, "file"))
		once, diags := config.Format(src, "x.locktree.hcl")
		if diags.HasErrors() {
			return // hcl ends a heredoc with its line, and some forms cannot follow it
		}
		requireSameMeaning(t, src, once)
		twice, diags := config.Format(once, "x.locktree.hcl")
		require.Empty(t, diags)
		require.Equal(t, string(once), string(twice), "of %q", src)
	})
}

// FuzzFormatKeepsTheMeaning checks that the syntax tree stays the same except for parentheses and the quotes around an interpolation. All
// comments stay, and formatting once more changes nothing.
func FuzzFormatKeepsTheMeaning(f *testing.F) {
	cases, err := filepath.Glob("../testdata/config/*.txtar")
	require.NoError(f, err)
	for _, name := range cases {
		archive, err := txtar.ParseFile(name)
		require.NoError(f, err)
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".locktree.hcl") {
				f.Add(file.Data)
			}
		}
	}
	for _, expr := range []string{
		`b`, `"${b}"`, "[\n1]", "b ?\n1 : 2", "\n\nb # c\n", "# c\nb", "<<E\nx\nE\n", "f(<<-E\n  x\n  E\n)", `{ a = "${b}" }`, "~b~", `b["${c}"]`, `"-${b}"`,
	} {
		f.Add([]byte("a = \"${" + expr + "}\"\n"))
		f.Add([]byte("x y { a = \"${" + expr + "}\" }\n"))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		once, diags := config.Format(src, "x.locktree.hcl")
		if diags.HasErrors() {
			return
		}
		requireSameMeaning(t, src, once)
		twice, _ := config.Format(once, "x.locktree.hcl")
		require.Equal(t, string(once), string(twice))
	})
}

func requireSameMeaning(t *testing.T, before, after []byte) {
	t.Helper()
	require.Equal(t, bytes.Count(before, []byte("\n")), bytes.Count(after, []byte("\n")), "fmt -diff compares line by line")
	require.Equal(t, outline(t, before), outline(t, after), "%q became %q", before, after)
	require.Equal(t, comments(before), comments(after), "%q became %q", before, after)
}

func comments(src []byte) []string {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	var out []string
	for _, t := range tokens {
		if t.Type == hclsyntax.TokenComment {
			out = append(out, strings.TrimSpace(string(t.Bytes)))
		}
	}
	return out
}

// outline is the syntax tree of a file as text, without places, parentheses and
// quotes that mean nothing.
func outline(t *testing.T, src []byte) string {
	t.Helper()
	file, diags := hclsyntax.ParseConfig(src, "", hcl.InitialPos)
	require.False(t, diags.HasErrors(), "%v in %q", diags, src)
	body := file.Body.(*hclsyntax.Body)
	var b strings.Builder
	writeOutline(&b, reflect.ValueOf(body))
	return b.String()
}

func writeOutline(b *strings.Builder, v reflect.Value) {
	if v.CanInterface() {
		switch n := v.Interface().(type) {
		case *hclsyntax.ParenthesesExpr:
			writeOutline(b, reflect.ValueOf(n.Expression))
			return
		case *hclsyntax.TemplateWrapExpr:
			writeOutline(b, reflect.ValueOf(n.Wrapped))
			return
		case hcl.Range, []hcl.Range:
			return
		case cty.Value:
			b.WriteString(n.GoString())
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			writeOutline(b, v.Elem())
		}
	case reflect.Struct:
		fmt.Fprintf(b, "%s{", v.Type().Name())
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				writeOutline(b, v.Field(i))
				b.WriteString(" ")
			}
		}
		b.WriteString("}")
	case reflect.Slice:
		b.WriteString("[")
		for i := range v.Len() {
			writeOutline(b, v.Index(i))
			b.WriteString(" ")
		}
		b.WriteString("]")
	case reflect.Map: // of attributes, by name; fmt sorts the keys
		names := map[string]string{}
		for it := v.MapRange(); it.Next(); {
			var e strings.Builder
			writeOutline(&e, it.Value())
			names[it.Key().String()] = e.String()
		}
		fmt.Fprint(b, names)
	case reflect.Func:
	default:
		fmt.Fprintf(b, "%#v", v)
	}
}
