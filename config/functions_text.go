package config

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// text makes a function of strings.
func text(names []string, ty cty.Type, f func(args []string) (cty.Value, error)) function.Function {
	params := make([]function.Parameter, len(names))
	for i, name := range names {
		params[i] = function.Parameter{Name: name, Type: cty.String}
	}
	return function.New(&function.Spec{
		Params: params, Type: function.StaticReturnType(ty),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			plain := make([]string, len(args))
			for i, a := range args {
				plain[i] = a.AsString()
			}
			return f(plain)
		},
	})
}

func textToText(f func(string) string) function.Function {
	return text([]string{"str"}, cty.String, func(args []string) (cty.Value, error) { return cty.StringVal(f(args[0])), nil })
}

func textTest(second string, f func(s, x string) bool) function.Function {
	return text([]string{"str", second}, cty.Bool, func(args []string) (cty.Value, error) { return cty.BoolVal(f(args[0], args[1])), nil })
}

var (
	startsWith = textTest("prefix", strings.HasPrefix)
	endsWith   = textTest("suffix", strings.HasSuffix)
	contains   = textTest("substr", strings.Contains)

	baseName  = textToText(path.Base)
	dirName   = textToText(path.Dir)
	urlEncode = textToText(url.QueryEscape)

	hexMD5    = textToText(func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) })
	hexSHA1   = textToText(func(s string) string { h := sha1.Sum([]byte(s)); return hex.EncodeToString(h[:]) })
	hexSHA256 = textToText(func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) })
	hexSHA512 = textToText(func(s string) string { h := sha512.Sum512([]byte(s)); return hex.EncodeToString(h[:]) })

	base64Encode = textToText(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })
	base64SHA1   = textToText(func(s string) string { h := sha1.Sum([]byte(s)); return base64.StdEncoding.EncodeToString(h[:]) })
	base64SHA256 = textToText(func(s string) string { h := sha256.Sum256([]byte(s)); return base64.StdEncoding.EncodeToString(h[:]) })
	base64SHA512 = textToText(func(s string) string { h := sha512.Sum512([]byte(s)); return base64.StdEncoding.EncodeToString(h[:]) })
)

var base64Decode = text([]string{"str"}, cty.String, func(args []string) (cty.Value, error) {
	raw, err := base64.StdEncoding.DecodeString(args[0])
	switch {
	case err != nil:
		return cty.NilVal, errors.New("the text is not base64")
	case !utf8.Valid(raw):
		return cty.NilVal, errors.New("what the base64 holds is not UTF-8 text, and strings can hold nothing else")
	}
	return cty.StringVal(string(raw)), nil
})

// replace replaces every occurrence of a text, or of a regular expression
// written between slashes, as Terraform's does.
var replace = text([]string{"str", "substr", "replace"}, cty.String, func(args []string) (cty.Value, error) {
	s, old, replacement := args[0], args[1], args[2]
	if len(old) < 2 || old[0] != '/' || old[len(old)-1] != '/' {
		if strings.Count(s, old)*len(replacement)+len(s) > maxTextBytes {
			return cty.NilVal, errTooLong
		}
		return cty.StringVal(strings.ReplaceAll(s, old, replacement)), nil
	}
	re, err := regexp.Compile(old[1 : len(old)-1])
	if err != nil {
		return cty.NilVal, function.NewArgErrorf(1, "not a regular expression: %s", err)
	}
	// Each reference to a group can insert, over all matches, as much as s holds.
	if len(re.FindAllStringIndex(s, -1))*len(replacement)+len(s)*(1+strings.Count(replacement, "$")) > maxTextBytes {
		return cty.NilVal, errTooLong
	}
	return cty.StringVal(re.ReplaceAllString(s, replacement)), nil
})

var errTooLong = fmt.Errorf("the result would have more than %d bytes", maxTextBytes)

// Sizes of results, for limited.

var formatWidth = regexp.MustCompile(`%[^a-zA-Z%]*`)

// formatSize bounds a format by its text, the widths and precisions in its verbs and the arguments. An
// argument may be taken many times, as in %[1]s%[1]s.
func formatSize(args []cty.Value) int {
	padding, again := formatVerbs(args[0])
	largest := maxDigits // of a number
	for _, a := range args[1:] {
		largest = max(largest, textSize([]cty.Value{a}))
	}
	return textSize(args) + padding + again*largest
}

// formatListSize is formatSize of all results: the format and what is no list go into each of them, and
// an element into one.
func formatListSize(args []cty.Value) int {
	padding, again := formatVerbs(args[0])
	n, each, lists := 1, textSize(args[:1])+padding+again*maxDigits, 0
	for _, a := range args[1:] {
		size := textSize([]cty.Value{a}) * (1 + again)
		if ty := a.Type(); ty.IsListType() || ty.IsSetType() || ty.IsTupleType() {
			n, lists = max(n, a.LengthInt()), lists+size
		} else {
			each += size
		}
	}
	return n*min(each, maxValueBytes+1) + lists // n is a length, which charge has bounded
}

// formatVerbs is how many bytes the verbs of a format ask for by a number, and how many of them choose
// their argument. Neither exceeds maxTextBytes by more than one, so that sums of them do not overflow.
func formatVerbs(format cty.Value) (padding, again int) {
	if format.Type() != cty.String {
		return 0, 0 // which format refuses
	}
	for _, verb := range formatWidth.FindAllString(format.AsString(), -1) {
		again += strings.Count(verb, "[")
		for _, digits := range strings.FieldsFunc(verb, func(r rune) bool { return r < '0' || r > '9' }) {
			n, err := strconv.Atoi(digits)
			if err != nil {
				n = maxTextBytes + 1
			}
			padding = min(padding+min(n, maxTextBytes+1), maxTextBytes+1)
		}
	}
	return padding, again
}

// textSize is the length of all texts in values.
func textSize(values []cty.Value) int {
	w := weigher{}
	for _, v := range values {
		w.add(v)
	}
	return w.bytes
}

func indentSize(args []cty.Value) int {
	spaces, _ := args[0].AsBigFloat().Int64()
	s := args[1].AsString()
	if spaces > maxTextBytes {
		return maxTextBytes + 1
	}
	return len(s) + strings.Count(s, "\n")*int(spaces)
}

func joinSize(args []cty.Value) int {
	elements := 0
	for _, list := range args[1:] {
		elements += list.LengthInt()
	}
	return textSize(args[1:]) + elements*len(args[0].AsString())
}
