package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// pages are what a reader meets first, in the order in which their commands run.
func pages(t *testing.T) []string {
	docs, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return append([]string{"../README.md"}, docs...)
}

// A generated block: a comment that says where the block comes from, and the block.
//
//	<!-- file: PATH -->          a whole file
//	<!-- file: PATH#NAME -->     the lines between "NAME: begin" and "NAME: end"
//	<!-- run: ARGS -->           what `locktree ARGS` prints for the quickstart
//	<!-- run: ARGS | TEXT -->    the same from the first line that contains TEXT to the summary of the plan, or to the end if it is
//	                             behind the summary
//	<!-- go run: PACKAGE -->     what that program prints
var generated = regexp.MustCompile("(?m)^<!-- (file|run|go run): (.+) -->\n(```[a-z]*\n)((?s:.*?))```$")

// Everything the pages show is what the code does: configurations and
// programs are the tested examples, and output is output.
func TestReadme(t *testing.T) {
	srv := zktest.Start(t)
	blocks := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		got := generated.ReplaceAllStringFunc(string(text), func(block string) string {
			blocks++
			m := generated.FindStringSubmatch(block)
			return strings.TrimSuffix(block, m[4]+"```") + produce(t, srv, m[1], m[2]) + "```"
		})
		got = generatedTable.ReplaceAllStringFunc(got, func(block string) string {
			blocks++
			m := generatedTable.FindStringSubmatch(block)
			return strings.TrimSuffix(block, m[2]) + tableOf(t, m[1])
		})
		if os.Getenv("GOLDEN") != "" {
			require.NoError(t, os.WriteFile(page, []byte(got), 0o644))
			continue
		}
		was, is := strings.Split(string(text), "\n"), strings.Split(got, "\n")
		for i := range min(len(was), len(is)) {
			require.Equal(t, was[i], is[i], "%s line %d is out of date: make golden", page, i+1)
		}
		require.Len(t, was, len(is), "%s is out of date: make golden", page)
	}
	require.GreaterOrEqual(t, blocks, 11, "the blocks were not recognised")
}

// What differs from run to run without meaning anything: where the server
// listens, which zxid a token is, and seconds on a slow machine, with what is said
// meanwhile.
func steady(srv *zktest.Server, out string) string { return steadyAt(srv.Addr(), out) }

var (
	tokenText = regexp.MustCompile(`([Tt]oken,?(?: was)?) (\d+)`)
	tokens    sync.Map // of each server, the tokens that were met, in their order
)

// shownToken keeps two grants apart. The first token that a server shows is 12.
func shownToken(addr, given string) int {
	met, _ := tokens.LoadOrStore(addr, &[]string{})
	all := met.(*[]string)
	if !slices.Contains(*all, given) {
		*all = append(*all, given)
	}
	return 12 + slices.Index(*all, given)
}

func steadyAt(addr, out string) string {
	out = strings.ReplaceAll(out, addr, "127.0.0.1:2181") // where `locktree dev` listens
	out = tokenText.ReplaceAllStringFunc(out, func(text string) string {
		m := tokenText.FindStringSubmatch(text)
		return fmt.Sprintf("%s %d", m[1], shownToken(addr, m[2]))
	})
	out = regexp.MustCompile(`(?m)^.*: Still .* elapsed\]\n`).ReplaceAllString(out, "")
	return regexp.MustCompile(`after (\d+[hm])*\d+s`).ReplaceAllString(out, "after 0s")
}

// The blocks stand in the order a reader would type them, so they run in that
// order against one server.
func produce(t *testing.T, srv *zktest.Server, what, arg string) string {
	t.Helper()
	switch what {
	case "file":
		return fileBlock(t, arg)
	case "run":
		args, from, cut := strings.Cut(arg, " | ")
		out, code := locktree(t, srv, "quickstart", strings.Fields(args)...)
		require.Zero(t, code, out)
		out = steady(srv, out)
		if cut {
			out = excerpt(t, out, from)
		}
		return strings.Trim(out, "\n") + "\n"
	default:
		return steady(srv, goRun(t, srv, arg))
	}
}

// excerpt keeps the README's first screen one screen.
func excerpt(t *testing.T, out, from string) string {
	t.Helper()
	i, j := strings.Index(out, from), strings.Index(out, "\nPlan: ")
	require.GreaterOrEqual(t, i, 0, "%q not found in:\n%s", from, out)
	i = strings.LastIndexByte(out[:i], '\n') + 1
	if j < i {
		return out[i:]
	}
	end := strings.IndexByte(out[j+1:], '\n')
	return out[i:j+1] + out[j+1:j+1+end] + "\n"
}

func fileBlock(t *testing.T, ref string) string {
	t.Helper()
	path, region, _ := strings.Cut(ref, "#")
	data, err := os.ReadFile(filepath.Join("..", path))
	require.NoError(t, err)
	if region == "" {
		return string(data)
	}
	_, rest, ok := strings.Cut(string(data), fmt.Sprintf("// %s: begin\n", region))
	require.True(t, ok, ref)
	body, _, ok := strings.Cut(rest, fmt.Sprintf("// %s: end\n", region))
	require.True(t, ok, ref)
	return unindent(body)
}

func unindent(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\t"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "\t")
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\t", "    ")
}

// Shell lines outside generated blocks name commands: each must exist, as must what the pages link to.
func TestReadmeCommandsExist(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`make ([a-z]+)`|(?m)^    make ([a-z]+)").FindAllStringSubmatch(string(text), -1) {
			target := m[1] + m[2]
			require.True(t, strings.Contains(string(makefile), "\n"+target+":"), "make %s", target)
		}
		for _, m := range regexp.MustCompile("(?m)^    locktree ([a-z]+) ").FindAllStringSubmatch(string(text), -1) {
			out, code := locktree(t, nil, "quickstart", m[1], "--help")
			require.Zero(t, code, out)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)|(?:src|srcset)="([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(page), m[1]+m[2]), page)
		}
	}
}

// The index of the documentation has every page and every runbook, and the page of commands every command.
func TestTheIndexHasEveryPage(t *testing.T) {
	index, err := os.ReadFile("../docs/README.md")
	require.NoError(t, err)
	for _, pattern := range []string{"../docs/*.md", "monitoring/runbooks/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			prose := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(text), "")
			require.Len(t, regexp.MustCompile(`(?m)^# `).FindAllString(prose, -1), 1, "%s has one title", file)
			link, err := filepath.Rel("../docs", filepath.Join("../examples", file))
			require.NoError(t, err)
			if link != "README.md" {
				require.Contains(t, string(index), "]("+link+")")
			}
		}
	}
	help, code := locktree(t, nil, "quickstart", "help")
	require.Zero(t, code, help)
	for _, m := range regexp.MustCompile(`(?m)^  locktree (\S+) +Runbook: `).FindAllStringSubmatch(help, -1) {
		require.Contains(t, string(index), "(../cmd/locktree/topics/"+m[1]+".txt)")
	}
	commands, err := os.ReadFile("../docs/commands.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)  +[A-Z]`).FindAllStringSubmatch(help, -1) {
		require.Regexp(t, "(?m)^    locktree "+m[1]+" ", string(commands))
	}
}

// A runbook said that no command breaks a lock. Now it names the one that does: commands and flags in the middle of a sentence exist.
func TestCommandsAndFlagsThatPagesNameExist(t *testing.T) {
	runbooks, err := filepath.Glob("monitoring/runbooks/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, runbooks)
	helps := map[string]string{}
	for _, page := range append(pages(t), runbooks...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`locktree ((?:state )?[a-z-]+)([^`]*)`").FindAllStringSubmatch(string(text), -1) {
			help, known := helps[m[1]]
			if !known {
				var code int
				help, code = locktree(t, nil, "quickstart", append(strings.Fields(m[1]), "-help")...)
				require.Zero(t, code, "%s: %s", page, help)
				helps[m[1]] = help
			}
			for _, flag := range regexp.MustCompile(` -[a-z][a-z-]*`).FindAllString(m[2], -1) {
				require.Regexp(t, `(?m)^ *`+flag+`\b`, help, "%s: %s", page, m[0])
			}
		}
	}
}
