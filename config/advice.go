package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// advise adds to a diagnostic of the hcl library what to type next, which most of
// them do not say. It may see a diagnostic twice.
func advise(d *hcl.Diagnostic) *hcl.Diagnostic {
	text, instead := computedAdvice(d), false
	if text == "" {
		for _, a := range advices[d.Summary] {
			if strings.Contains(d.Detail, a.detail) {
				text, instead = a.text, a.instead
				break
			}
		}
	}
	if text == "" || strings.Contains(d.Detail, text) {
		return d
	}
	what, where := d.Detail, ""
	if i := suffix.FindStringIndex(what); i != nil {
		what, where = what[:i[0]], what[i[0]:]
	}
	if what += " " + text; instead {
		what = text
	}
	out := *d
	out.Detail = what + where
	return &out
}

// suffix is what is added to a message where an argument is evaluated.
var suffix = regexp.MustCompile(` (This is about |The check could not be made\.)`)

// computedAdvice is what depends on names and values.
func computedAdvice(d *hcl.Diagnostic) string {
	switch {
	case d.Summary == "Unsupported argument" || d.Summary == "Extraneous JSON object property":
		return argumentAdvice(d)
	case d.Summary == "Unsupported block type":
		return blockAdvice(d)
	case d.Summary == "Not enough function arguments" || d.Summary == "Too many function arguments" || d.Summary == "Invalid function argument":
		return callAdvice(d)
	case d.Summary == "Unsupported attribute" || d.Summary == "Invalid index":
		return elementAdvice(d)
	case d.Summary == "Invalid type specification":
		return typeAdvice(d)
	case strings.HasPrefix(d.Summary, "Missing ") || strings.HasPrefix(d.Summary, "Extraneous label for "):
		return labelAdvice(d)
	case d.Summary == "Unexpected end of template":
		return fmt.Sprintf("Write %%{ end%s } where it ends.", firstGroup(directive, d.Detail))
	}
	return ""
}

var (
	givenName = regexp.MustCompile(`(?:named|of type|variable|Function|keyword) "([^"]*)"`)
	directive = regexp.MustCompile(`^The (\w+) directive`)
	labelled  = regexp.MustCompile(`(?:All|for) (\S+) blocks`)
	labels    = regexp.MustCompile(`labels \((.*?)\)`)
	typeCall  = regexp.MustCompile(`(?i)^(?:the )?(\w+) (?:type )?constructor`)
)

func firstGroup(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// terraformArguments are what Terraform has and this language does without.
var terraformArguments = map[string]string{
	"count":      `There is no count: write for_each = toset(["a", "b"]), with a name for each of them, and use each.key.`,
	"depends_on": "Leave it out: what waits for what follows from references, and from what stands in what.",
	"provider":   "Write ensemble = ensemble.NAME on a block at the top to say where it stands.",
	"providers":  "Write ensemble = ensemble.NAME to say where the module stands.",
}

var terraformBlocks = map[string]string{
	"resource":  `Write the type of the lock itself: mutex "NAME" { ... }.`,
	"data":      "What exists already is taken over: write import { ... }.",
	"provider":  `How to reach ZooKeeper is said by ensemble "NAME" { ... }.`,
	"terraform": "Settings of the configuration stand in locktree { ... }.",
}

func argumentAdvice(d *hcl.Diagnostic) string {
	name := firstGroup(givenName, d.Detail)
	if text := terraformArguments[name]; text != "" || !strings.HasSuffix(d.Detail, "is not expected here. It takes no arguments.") {
		return text
	}
	for _, b := range language.blocks {
		if slices.Contains(b.argNames(), name) {
			return fmt.Sprintf("Write it in a block: %s { %s = ... }.", b.name, name)
		}
	}
	return fmt.Sprintf("Write it in a block: locals { %s = ... }, and refer to local.%s.", name, name)
}

func blockAdvice(d *hcl.Diagnostic) string {
	if !strings.HasSuffix(d.Detail, "are not expected here.") {
		return ""
	}
	if text := terraformBlocks[firstGroup(givenName, d.Detail)]; text != "" {
		return text
	}
	return "At the top of a file stand " + strings.Join(language.blockNames(), ", ") + "."
}

func labelAdvice(d *hcl.Diagnostic) string {
	typ := firstGroup(labelled, d.Detail)
	if typ == "" {
		return ""
	}
	if label := firstGroup(labels, d.Detail); label != "" {
		typ += ` "` + strings.ToUpper(label) + `"`
	}
	return "Write " + typ + " { ... }."
}

// callAdvice writes out the call of a function.
func callAdvice(d *hcl.Diagnostic) string {
	name := ""
	if extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok {
		name = extra.CalledFunctionName()
	} else if call, ok := d.Expression.(*hclsyntax.FunctionCallExpr); ok {
		name = call.Name
	}
	for ctx := d.EvalContext; ctx != nil; ctx = ctx.Parent() {
		f, ok := ctx.Functions[name]
		if !ok {
			continue
		}
		var names []string
		for _, p := range f.Params() {
			names = append(names, p.Name)
		}
		if p := f.VarParam(); p != nil {
			names = append(names, p.Name+"...")
		}
		call := fmt.Sprintf("%s(%s)", name, strings.Join(names, ", "))
		if d.Summary == "Invalid function argument" {
			return "Give it what fits: " + call + "."
		}
		return "Correct the call: " + call + "."
	}
	return ""
}

func typeAdvice(d *hcl.Diagnostic) string {
	switch typ := strings.ToLower(firstGroup(typeCall, d.Detail)); typ {
	case "list", "set", "map":
		return fmt.Sprintf("Write %s(string), or %s(any).", typ, typ)
	case "object":
		return "Write object({ NAME = TYPE }), as object({ permits = number })."
	case "tuple":
		return "Write tuple([TYPE, TYPE])."
	}
	if given := firstGroup(givenName, d.Detail); given != "" {
		return strings.TrimPrefix(hint(given, []string{"string", "number", "bool", "any", "list(...)", "set(...)", "map(...)", "object({...})", "tuple([...])"}, ""), " ")
	}
	return "Write it without quotes, as type = string."
}

// elementAdvice says which elements there are, where one that is not was asked for.
func elementAdvice(d *hcl.Diagnostic) string {
	in, given := askedFor(d)
	if in == cty.NilVal || in.IsMarked() || !in.IsKnown() || in.IsNull() {
		return ""
	}
	switch ty := in.Type(); {
	case ty.IsObjectType() || ty.IsMapType():
		var names []string
		for it := in.ElementIterator(); it.Next(); {
			k, _ := it.Element()
			names = append(names, k.AsString())
		}
		if text := hint(given, names, "It has none: write try(..., DEFAULT) where that may be."); text != "" {
			return text[1:]
		}
		return "Write try(..., DEFAULT) where it may be missing."
	case ty.IsTupleType() || ty.IsListType():
		if d.Summary != "Invalid index" {
			return "It is a list: write [0] in front of the dot for the first element, or [*] for all."
		}
		switch n := in.LengthInt(); n {
		case 0:
			return "The list is empty: write try(..., DEFAULT) where that may be."
		case 1:
			return "The list has one element: write [0]."
		default:
			return fmt.Sprintf("The list has %d elements: write [0] for the first one, up to [%d].", n, n-1)
		}
	case ty.IsSetType():
		return "A set has no order: use a for expression, or tolist(...) to count its elements."
	default:
		return fmt.Sprintf("It is a %s and has no parts: use it as it is.", ty.FriendlyName())
	}
}

// askedFor finds the value in which an element was looked for, and its name.
func askedFor(d *hcl.Diagnostic) (cty.Value, string) {
	var v cty.Value
	var steps hcl.Traversal
	switch e := d.Expression.(type) {
	case *hclsyntax.IndexExpr:
		v, _ = e.Collection.Value(d.EvalContext)
		key, _ := e.Key.Value(d.EvalContext)
		return v, elementKey(key)
	case *hclsyntax.ScopeTraversalExpr:
		v, _ = e.Traversal[:1].TraverseAbs(d.EvalContext)
		steps = e.Traversal[1:]
	case *hclsyntax.RelativeTraversalExpr:
		v, _ = e.Source.Value(d.EvalContext)
		steps = e.Traversal
	}
	for _, s := range steps {
		if d.Subject != nil && s.SourceRange() == *d.Subject {
			switch s := s.(type) {
			case hcl.TraverseAttr:
				return v, s.Name
			case hcl.TraverseIndex:
				return v, elementKey(s.Key)
			}
			return v, ""
		}
		v, _ = s.TraversalStep(v)
	}
	return cty.NilVal, ""
}

func elementKey(key cty.Value) string {
	if key.IsMarked() || !key.IsKnown() || key.IsNull() || key.Type() != cty.String {
		return ""
	}
	return key.AsString()
}

// Mistakes of syntax that may be said of what follows another one, by what they
// follow: what is an error by itself is reported, and not what the parser made of it.
var (
	followUps  = []string{"Invalid expression", "Missing newline after argument", "Argument or block definition required", "Unexpected endif directive", "Unexpected endfor directive"}
	openQuotes = []string{"Invalid multi-line string", "Unterminated template string", "Invalid string literal"}
)

// causes leaves out what only follows from another mistake, or repeats it on the same
// line: after a text whose quote is missing, all texts are inside out to the end of the
// file.
func causes(diags hcl.Diagnostics) hcl.Diagnostics {
	specific, said := map[int]bool{}, map[string]bool{}
	open := 0 // the line from which on quotes mean nothing; 0: none
	for _, d := range diags {
		line := subject(d).Start.Line
		specific[line] = specific[line] || !slices.Contains(followUps, d.Summary)
		if d.Summary == "Unclosed template interpolation sequence" && open == 0 {
			open = line
		}
	}
	var out hcl.Diagnostics
	for _, d := range diags {
		line := subject(d).Start.Line
		quote := slices.Contains(openQuotes, d.Summary)
		key := fmt.Sprint(line, d.Summary, d.Detail)
		if slices.Contains(followUps, d.Summary) && specific[line] || quote && open > 0 && line >= open || said[key] {
			continue
		}
		if quote && open == 0 {
			open = line
		}
		said[key] = true
		out = append(out, d)
	}
	return out
}
