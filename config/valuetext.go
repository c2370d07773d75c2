package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// valueText writes a value as the language would. A list, set or map that no
// literal makes says which function does: tolist([...]).
func valueText(v cty.Value) string {
	ty := v.Type()
	switch {
	case !v.IsMarked() && !v.IsNull() && ty == cty.String && strings.HasSuffix(v.AsString(), "\n") && !strings.ContainsAny(v.AsString(), "\r\x1b"):
		mark := "EOT" // a heredoc shows several lines as they are
		for strings.Contains("\n"+v.AsString(), "\n"+mark) {
			mark += "_"
		}
		return "<<" + mark + "\n" + v.AsString() + mark
	default:
		return string(hclwrite.Format([]byte(literal(v))))
	}
}

// literal is the value without a layout.
func literal(v cty.Value) string {
	switch ty := v.Type(); {
	case v.IsMarked():
		return "(sensitive value)"
	case policyValue(v) != nil:
		return "acl." + policyValue(v).name
	case ensembleValue(v) != nil:
		return "ensemble." + ensembleValue(v).Name
	case v.IsNull() || ty.IsPrimitiveType():
		return string(hclwrite.TokensForValue(v).Bytes())
	case ty.IsObjectType():
		return parts(v, "{", "}")
	case ty.IsMapType():
		return parts(v, "tomap({", "})")
	case ty.IsListType():
		return parts(v, "tolist([", "])")
	case ty.IsSetType():
		return parts(v, "toset([", "])")
	case ty.IsTupleType():
		return parts(v, "[", "]")
	default:
		return ty.FriendlyName()
	}
}

func parts(v cty.Value, open, end string) string {
	var b strings.Builder
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		switch name := key; {
		case !strings.HasSuffix(open, "{"):
			b.WriteString(literal(e) + ",\n")
		case hclsyntax.ValidIdentifier(name.AsString()):
			b.WriteString(name.AsString() + " = " + literal(e) + "\n")
		default:
			b.WriteString(literal(name) + " = " + literal(e) + "\n")
		}
	}
	if b.Len() == 0 {
		return open + end
	}
	return open + "\n" + b.String() + end
}
