package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// valueText writes a value as the language would. A list, set or map that no
// literal makes says which function does: tolist([...]).
func valueText(v cty.Value) string {
	var b strings.Builder
	writeValue(&b, v, "")
	return b.String()
}

func writeValue(b *strings.Builder, v cty.Value, indent string) {
	ty := v.Type()
	switch {
	case v.IsMarked():
		b.WriteString("(sensitive value)")
	case ty.IsCapsuleType():
		b.WriteString(capsuleText(v))
	case v.IsNull():
		b.WriteString("null")
	case ty == cty.String:
		writeText(b, v.AsString(), indent)
	case ty.IsPrimitiveType():
		b.Write(hclwrite.TokensForValue(v).Bytes())
	case ty.IsObjectType():
		writeParts(b, v, indent, "{", "}")
	case ty.IsMapType():
		writeParts(b, v, indent, "tomap({", "})")
	case ty.IsTupleType():
		writeParts(b, v, indent, "[", "]")
	case ty.IsListType():
		writeParts(b, v, indent, "tolist([", "])")
	case ty.IsSetType():
		writeParts(b, v, indent, "toset([", "])")
	default:
		b.WriteString(ty.FriendlyName())
	}
}

func writeParts(b *strings.Builder, v cty.Value, indent, open, end string) {
	b.WriteString(open)
	if v.LengthInt() > 0 {
		b.WriteString("\n")
	}
	keyed := strings.HasSuffix(open, "{")
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		b.WriteString(indent + "  ")
		if keyed {
			b.WriteString(keyText(key.AsString()) + " = ")
		}
		writeValue(b, e, indent+"  ")
		if !keyed {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	if v.LengthInt() > 0 {
		b.WriteString(indent)
	}
	b.WriteString(end)
}

func keyText(key string) string {
	if hclsyntax.ValidIdentifier(key) {
		return key
	}
	return quoteText(key)
}

// writeText writes text of several lines as a heredoc, which shows it as it is.
func writeText(b *strings.Builder, s, indent string) {
	if !strings.HasSuffix(s, "\n") || indent != "" || strings.ContainsAny(s, "\r\x1b") {
		b.WriteString(quoteText(s))
		return
	}
	mark := "EOT"
	for strings.Contains("\n"+s, "\n"+mark) {
		mark += "_"
	}
	fmt.Fprintf(b, "<<%s\n%s%s", mark, s, mark)
}

func quoteText(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) }

func capsuleText(v cty.Value) string {
	if p := policyValue(v); p != nil {
		return "acl." + p.name
	}
	if e := ensembleValue(v); e != nil {
		return "ensemble." + e.Name
	}
	return v.Type().FriendlyName()
}
