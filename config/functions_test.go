package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// Every function of the language is called here; TestEveryFunctionIsTested
// makes sure of it.
var functionCases = map[string][]struct{ expr, want string }{
	"abs": {{`abs(-2)`, `2`}}, "ceil": {{`ceil(1.2)`, `2`}}, "floor": {{`floor(1.8)`, `1`}}, "log": {{`log(8, 2)`, `3`}},
	"max": {{`max(1, 3, 2)`, `3`}}, "min": {{`min(1, 3, 2)`, `1`}}, "parseint": {{`parseint("ff", 16)`, `255`}},
	"pow": {{`pow(2, 10)`, `1024`}}, "signum": {{`signum(-3)`, `-1`}},

	"chomp": {{`chomp("a\n")`, `"a"`}}, "endswith": {{`endswith("abc", "bc")`, `true`}, {`endswith("abc", "b")`, `false`}},
	"format": {{`format("%03d-%s", 7, "x")`, `"007-x"`}}, "formatlist": {{`formatlist("%s!", ["a", "b"])`, `["a!", "b!"]`}},
	"indent": {{`indent(2, "a\nb")`, `"a\n  b"`}}, "join": {{`join("-", ["a", "b"])`, `"a-b"`}}, "lower": {{`lower("AB")`, `"ab"`}},
	"regex": {{`regex("[0-9]+", "a12b")`, `"12"`}}, "regexall": {{`regexall("[0-9]", "1a2")`, `["1", "2"]`}},
	"replace": {{`replace("a-b-c", "-", "+")`, `"a+b+c"`}, {`replace("a1b22", "/[0-9]+/", "<$0>")`, `"a<1>b<22>"`}},
	"split":   {{`split(",", "a,b")`, `["a", "b"]`}}, "startswith": {{`startswith("abc", "ab")`, `true`}, {`startswith("abc", "b")`, `false`}},
	"strcontains": {{`strcontains("abc", "b")`, `true`}}, "strrev": {{`strrev("abc")`, `"cba"`}}, "substr": {{`substr("abcd", 1, 2)`, `"bc"`}},
	"title": {{`title("a b")`, `"A B"`}}, "trim": {{`trim("--a--", "-")`, `"a"`}}, "trimprefix": {{`trimprefix("ab", "a")`, `"b"`}},
	"trimspace": {{`trimspace(" a ")`, `"a"`}}, "trimsuffix": {{`trimsuffix("ab", "b")`, `"a"`}}, "upper": {{`upper("a")`, `"A"`}},

	"alltrue":   {{`alltrue([true, "true"])`, `true`}, {`alltrue([true, null])`, `false`}, {`alltrue([])`, `true`}},
	"anytrue":   {{`anytrue([false, true])`, `true`}, {`anytrue([null])`, `false`}, {`anytrue([])`, `false`}},
	"chunklist": {{`chunklist([1, 2, 3], 2)`, `[[1, 2], [3]]`}}, "coalesce": {{`coalesce(null, "b")`, `"b"`}},
	"coalescelist": {{`coalescelist([], ["b"])`, `["b"]`}}, "compact": {{`compact(["a", "", null])`, `["a"]`}},
	"concat": {{`concat([1], [2])`, `[1, 2]`}}, "contains": {{`contains(["a"], "a")`, `true`}}, "distinct": {{`distinct(["a", "a"])`, `["a"]`}},
	"element": {{`element(["a", "b"], 3)`, `"b"`}}, "flatten": {{`flatten([[1], [[2]]])`, `[1, 2]`}}, "index": {{`index(["a", "b"], "b")`, `1`}},
	"keys": {{`keys({ b = 1, a = 2 })`, `["a", "b"]`}}, "length": {{`length("äb")`, `2`}, {`length([1, 2])`, `2`}, {`length({ a = 1 })`, `1`}},
	"lookup": {{`lookup({ a = 1 }, "b", 3)`, `3`}}, "matchkeys": {{`matchkeys(["a", "b"], [1, 2], [2])`, `["b"]`}, {`matchkeys(["a"], [1], [2])`, `[]`}},
	"merge": {{`merge({ a = 1 }, { b = 2 })`, `{"a": 1, "b": 2}`}}, "one": {{`one([])`, `null`}, {`one(["a"])`, `"a"`}, {`one(toset(["a"]))`, `"a"`}},
	"range": {{`range(3)`, `[0, 1, 2]`}}, "reverse": {{`reverse([1, 2])`, `[2, 1]`}},
	"setintersection": {{`setintersection(["a", "b"], ["b"])`, `["b"]`}}, "setproduct": {{`setproduct(["a"], ["x", "y"])`, `[["a", "x"], ["a", "y"]]`}},
	"setsubtract": {{`setsubtract(["a", "b"], ["b"])`, `["a"]`}}, "setunion": {{`setunion(["a"], ["b"])`, `["a", "b"]`}},
	"slice": {{`slice([1, 2, 3], 1, 2)`, `[2]`}}, "sort": {{`sort(["b", "a"])`, `["a", "b"]`}}, "sum": {{`sum([1, 2.5])`, `3.5`}, {`sum(toset([1, 2]))`, `3`}},
	"transpose": {{`transpose({ a = ["x", "y"], b = ["y"] })`, `{"x": ["a"], "y": ["a", "b"]}`}, {`transpose({})`, `{}`}},
	"values":    {{`values({ b = 1, a = 2 })`, `[2, 1]`}}, "zipmap": {{`zipmap(["a"], [1])`, `{"a": 1}`}},

	"base64decode": {{`base64decode("YQ==")`, `"a"`}}, "base64encode": {{`base64encode("a")`, `"YQ=="`}},
	"base64sha1":   {{`base64sha1("us:secret")`, `"YH0c/lnVB2oYwTNmbjdFOrkBy7U="`}},
	"base64sha256": {{`base64sha256("")`, `"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="`}},
	"base64sha512": {{`length(base64sha512(""))`, `88`}},
	"csvdecode":    {{`csvdecode("a,b\n1,2")`, `[{"a": "1", "b": "2"}]`}}, "jsondecode": {{`jsondecode("{\"a\": [1]}")`, `{"a": [1]}`}},
	"jsonencode": {{`jsonencode({ a = [1] })`, `"{\"a\":[1]}"`}}, "urlencode": {{`urlencode("a b/ü")`, `"a+b%2F%C3%BC"`}},
	"md5": {{`md5("")`, `"d41d8cd98f00b204e9800998ecf8427e"`}}, "sha1": {{`sha1("")`, `"da39a3ee5e6b4b0d3255bfef95601890afd80709"`}},
	"sha256":     {{`sha256("")`, `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`}},
	"sha512":     {{`length(sha512(""))`, `128`}},
	"formatdate": {{`formatdate("YYYY", "2024-02-03T04:05:06Z")`, `"2024"`}}, "timeadd": {{`timeadd("2024-02-03T04:05:06Z", "1h")`, `"2024-02-03T05:05:06Z"`}},

	"tobool": {{`tobool("true")`, `true`}}, "tolist": {{`tolist(["a"])`, `["a"]`}}, "tomap": {{`tomap({ a = 1 })`, `{"a": 1}`}},
	"tonumber": {{`tonumber("2")`, `2`}}, "toset": {{`toset(["a", "a"])`, `["a"]`}}, "tostring": {{`tostring(2)`, `"2"`}, {`issensitive(tostring(sensitive(2)))`, `true`}, {`tostring(null)`, `null`},
		// as everywhere else where a number becomes text
		{`[for n in [12 * 1000, -7, 0, -0, 1 / 4, 9007199254740992, 9007199254740993, pow(2, 200), 1e30] : n if "=${tostring(n)}" != "=${n}"]`, `[]`}},

	"basename": {{`basename("/a/b")`, `"b"`}}, "dirname": {{`dirname("/a/b")`, `"/a"`}},
	"znodepath": {{`znodepath("/a/", "b/c")`, `"/a/b/c"`}, {`znodepath()`, `"/"`}},
	"sensitive": {{`issensitive(sensitive("x"))`, `true`}}, "nonsensitive": {{`nonsensitive(env("PASSWORD"))`, `"correct horse"`}},
	"issensitive": {{`issensitive("x")`, `false`}, {`issensitive(upper(env("PASSWORD")))`, `true`}},
	// The hash is what "printf us:secret | openssl sha1 -binary | base64" prints.
	"digest": {{`nonsensitive(digest("us", "secret"))`, `"us:YH0c/lnVB2oYwTNmbjdFOrkBy7U="`}, {`issensitive(digest("us", "secret"))`, `true`}},
	"try":    {{`try(tonumber("x"), 3)`, `3`}}, "can": {{`can(tonumber("x"))`, `false`}, {`can(tonumber("1"))`, `true`}},
	"convert":      {{`convert(["a"], set(string))`, `["a"]`}},
	"env":          {{`issensitive(env("PASSWORD"))`, `true`}, {`try(env("UNSET"), "no")`, `"no"`}},
	"file":         {{`file("text.txt")`, `"hello ${name}"`}, {`file("${path.module}/sub/../text.txt")`, `"hello ${name}"`}},
	"fileexists":   {{`fileexists("text.txt")`, `true`}, {`fileexists("none")`, `false`}},
	"templatefile": {{`templatefile("text.txt", { name = "x" })`, `"hello x"`}},
}

func evalIn(t *testing.T, dir, expr string) (string, string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.locktree.hcl"), []byte(preamble+"output \"o\" {\n  value = "+expr+"\n}\n"), 0o666))
	c, diags := config.Load(dir, config.Options{Environ: testEnviron})
	if diags.HasErrors() {
		return "", render(t, c, diags)
	}
	return string(c.Outputs[0].Value), ""
}

func TestFunctions(t *testing.T) {
	dir := writeDir(t, map[string]string{"text.txt": "hello ${name}", "sub/x": ""})
	for name, cases := range functionCases {
		for _, c := range cases {
			got, problem := evalIn(t, dir, c.expr)
			require.Empty(t, problem, "%s: %s", name, c.expr)
			require.JSONEq(t, c.want, got, c.expr)
		}
	}
}

func TestEveryFunctionIsTested(t *testing.T) {
	require.Equal(t, config.Schema().Functions, slices.Sorted(maps.Keys(functionCases)))
}

// Two evaluations of one configuration must agree, so nothing impure is callable.
func TestImpureFunctionsDoNotExist(t *testing.T) {
	for _, name := range []string{"timestamp", "plantimestamp", "uuid", "bcrypt", "random", "http"} {
		require.NotContains(t, config.Schema().Functions, name)
	}
}

func TestFunctionErrorsSayWhatToDo(t *testing.T) {
	dir := writeDir(t, map[string]string{"bad.txt": "${", "binary": "\xff\xfe", "loop.txt": "${templatefile(\"loop.txt\", {})}", "sub/x": ""})
	for expr, want := range map[string]string{
		`env("UNSET")`:                         "export it",
		`file("/etc/hostname")`:                "only files in the directory of the module",
		`file("../x")`:                         "only files in the directory of the module",
		`file("none")`:                         "no such file",
		`file("binary")`:                       "is not valid UTF-8",
		`templatefile("bad.txt", {})`:          "bad.txt",
		`templatefile("loop.txt", {})`:         "templatefile",
		`templatefile("bad.txt", 1)`:           "must be a map",
		`digest("a:b", "c")`:                   "colon",
		`znodepath("a", "..")`:                 "no relative paths",
		`znodepath("zookeeper", "quota")`:      "belongs to ZooKeeper",
		`base64decode("!")`:                    "not base64",
		`base64decode("/w==")`:                 "not valid UTF-8",
		`one([1, 2])`:                          "no or one element",
		`index(["a"], "b")`:                    "does not contain",
		`sum(["x"])`:                           "a number is required",
		`sum({})`:                              "list of number required",
		`sum([])`:                              "sum(concat([0], ...))",
		`coalesce(null, "")`:                   "every argument is null or an empty string",
		`fileexists("sub")`:                    "sub is a directory or a device",
		`lookup({}, "a")`:                      "write lookup(MAP, KEY, DEFAULT)",
		`lookup({}, "a", 1, 2)`:                "one default at most",
		`lookup([], "a", 1)`:                   "must be a map",
		`lookup(tomap({ a = 1 }), "a", [])`:    "must be of the type of the elements: number required",
		`matchkeys(["a"], [[1]], ["a"])`:       "must be of one type",
		`matchkeys([1], [], [])`:               "one length",
		`length(1)`:                            "must be a string, a list",
		`replace("a", "/(/", "b")`:             "not a regular expression",
		`indent(-1, "a\nb")`:                   "There is no result for these arguments",
		`log(-1, 2)`:                           "There is no result for these arguments",
		`sum([pow(2, 99999), -pow(2, 99999)])`: "There is no result for these arguments",
	} {
		_, problem := evalIn(t, dir, expr)
		require.Contains(t, problem, want, expr)
	}
}

func TestFilesOutsideCannotBeReachedByALink(t *testing.T) {
	outside := writeDir(t, map[string]string{"secret": "canary"})
	dir := writeDir(t, map[string]string{"x": ""})
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")))
	_, problem := evalIn(t, dir, `file("link")`)
	require.Contains(t, problem, "cannot read link")
	require.NotContains(t, problem, "canary")
}
