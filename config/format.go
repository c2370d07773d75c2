package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns src in the canonical layout. The name decides between native and JSON syntax; JSON, which has no canonical
// layout, is returned as it is. A source that does not parse is returned unchanged, with the reasons.
func Format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	isJSON := strings.HasSuffix(filename, ".json")
	r := &report{}
	if len(src) > maxFileBytes {
		r.errorf(fileStart(filename), "Cannot read the file", "The file is larger than %d MiB.", maxFileBytes>>20)
		return src, r.sorted()
	}
	_, diags := parseFile(src, filename, isJSON)
	r.add(causes(diags)...)
	if isJSON || r.diags.HasErrors() {
		return src, r.sorted()
	}
	return hclwrite.Format(src), r.sorted()
}
