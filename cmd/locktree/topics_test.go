package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/help"
)

// The page on JSON names every message of the stream and every field at the top of
// the documents.
func TestJSONTopicIsComplete(t *testing.T) {
	messages := regexp.MustCompile(`(?:\b(?:[ms]\.Send|write|about)\(\w*"?\w*"?, |kind, action :?= )"(\w*[a-z])"`).FindAllStringSubmatch(sourceOf(t, "internal/view/*.go", "internal/view/*/*.go"), -1)
	require.Greater(t, len(messages), 20)
	for _, m := range messages {
		require.Regexp(t, `\b`+m[1]+`\b`, topicText("json"))
	}
	b := newBench(t, "mutex \"a\" {\n  acl = acl.open\n}\n")
	b.run(exit.OK, "plan", "-out=p")
	for _, command := range []string{"show -json p", "show -json", "validate -json", "version -json", "status -json"} {
		out, _ := b.run(exit.OK, strings.Split(command, " ")...)
		var document map[string]any
		require.NoError(t, json.Unmarshal([]byte(out), &document), command)
		require.NotEmpty(t, document)
		for field := range document {
			require.Regexp(t, `\b`+field+`\b`, topicText("json"), command)
		}
	}
}

// Every variable the program looks at stands in its page, and none besides.
func TestEnvironmentTopicIsComplete(t *testing.T) {
	source := sourceOf(t, "*.go", "internal/*/*.go", "internal/view/*/*.go", "../../config/*.go", "../../config/*/*.go", "../../config/internal/*/*.go")
	looked := map[string]bool{}
	for _, m := range regexp.MustCompile(`"((?:ZOOKEEPER|LOCKTREE|CLICOLOR|NO_COLOR|TERM)(?:_[A-Z_]+)?)"`).FindAllStringSubmatch(source, -1) {
		looked[m[1]] = true
		require.Regexp(t, `(?m)^  `+m[1], topicText("environment"))
	}
	require.Greater(t, len(looked), 12)
	for _, m := range regexp.MustCompile(`(?m)^  ([A-Z_]{4,})`).FindAllStringSubmatch(topicText("environment"), -1) {
		require.True(t, looked[m[1]], m[1])
	}
}

// Every flag and command the guides mention exists, or the guide is wrong.
func TestGuidesMentionWhatExists(t *testing.T) {
	known := map[string]bool{}
	eachCommand(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	})
	mentioned := 0
	for _, text := range []string{topicText("from-terraform"), topicText("from-curator"), topicText("environment")} {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n,.;:()\"", r) }) {
			name, _, _ := strings.Cut(strings.TrimPrefix(word, "-"), "=")
			if strings.HasPrefix(help.Normalize(appWith().rootCommand(), []string{word})[0], "--") {
				require.True(t, known[name], "-%s", name)
				mentioned++
			}
		}
	}
	require.Greater(t, mentioned, 10)
}

// The help of serve had 59 lines on a terminal of 100 columns, and that of locktree 54.
func TestTheHelpOfEachCommandFitsOneScreen(t *testing.T) {
	eachCommand(func(c *cobra.Command) {
		if c.IsAdditionalHelpTopicCommand() {
			return
		}
		lines := 0
		for line := range strings.Lines(tool(t, exit.OK, ".", nil, append(strings.Fields(c.CommandPath())[1:], "-help")...)) {
			lines += 1 + utf8.RuneCountInString(line)/101
		}
		require.LessOrEqual(t, lines, 50, c.CommandPath())
	})
}

// sourceFiles are the files of some patterns, without tests.
func sourceFiles(t *testing.T, patterns ...string) (all []string) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		all = append(all, slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })...)
	}
	return all
}

func sourceOf(t *testing.T, patterns ...string) (source string) {
	for _, name := range sourceFiles(t, patterns...) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source += string(text)
	}
	return source
}

func topicText(name string) string {
	for _, c := range help.Topics() {
		if c.Use == name {
			return c.Long
		}
	}
	panic(name)
}
