package config

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/url"
	"path"
	"regexp"
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
		return cty.NilVal, errors.New("the string is not base64")
	case !utf8.Valid(raw):
		return cty.NilVal, errors.New("the decoded bytes are not valid UTF-8, which a string must be")
	}
	return cty.StringVal(string(raw)), nil
})

// replace replaces every occurrence of a text, or of a regular expression
// written between slashes, as Terraform's does.
var replace = text([]string{"str", "substr", "replace"}, cty.String, func(args []string) (cty.Value, error) {
	s, old, replacement := args[0], args[1], args[2]
	if len(old) < 2 || old[0] != '/' || old[len(old)-1] != '/' {
		return cty.StringVal(strings.ReplaceAll(s, old, replacement)), nil
	}
	re, err := regexp.Compile(old[1 : len(old)-1])
	if err != nil {
		return cty.NilVal, function.NewArgErrorf(1, "not a regular expression: %s", err)
	}
	return cty.StringVal(re.ReplaceAllString(s, replacement)), nil
})
