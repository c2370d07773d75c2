package examples_test

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// pages are the first pages that a reader meets, in the order in which their commands run.
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
//	<!-- run: ARGS | TEXT -->    the same from the first line that contains TEXT to the summary of the plan, or to the end if TEXT
//	                             comes after it
//	<!-- in use: ARGS -->        what `locktree ARGS` prints while worker-1 holds the ledger and worker-2 waits for it
var generated = regexp.MustCompile("(?m)^<!-- (file|run|in use): (.+) -->\n(```[a-z]*\n)((?s:.*?))```$")

// The pages show what the code does: configurations and programs are the tested examples, and output is real.
func TestReadme(t *testing.T) {
	srv := zktest.Start(t)
	blocks := 0
	for _, page := range pages(t) {
		text := contents(t, page)
		got := generated.ReplaceAllStringFunc(text, func(block string) string {
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
		was, is := strings.Split(text, "\n"), strings.Split(got, "\n")
		for i := range min(len(was), len(is)) {
			require.Equal(t, was[i], is[i], "%s line %d is out of date: make golden", page, i+1)
		}
		require.Len(t, was, len(is), "%s is out of date: make golden", page)
	}
	require.GreaterOrEqual(t, blocks, 11, "the blocks were not recognised")
}

// steady replaces text that differs from run to run without meaning: the server's address, a token's zxid, and seconds on a slow machine,
// with its progress messages.
func steady(srv *zktest.Server, out string) string { return steadyAt(srv.Addr(), out) }

var (
	tokenText = regexp.MustCompile(`([Tt]oken,?(?: was)?) (\d+)`)
	tokens    sync.Map // the tokens met on each server, in their order
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

// produce runs the blocks against one server, in the order in which a reader would type them.
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
		release := contend(t, srv)
		defer release()
		out, code := locktree(t, srv, "quickstart", strings.Fields(arg)...)
		require.Zero(t, code, out)
		return strings.Trim(steadyRun(srv.Addr(), out), "\n") + "\n"
	}
}

// contend lets worker-1 hold the ledger and worker-2 wait for it, until release.
func contend(t *testing.T, srv *zktest.Server) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	queued, left := make(chan struct{}), make(chan struct{})
	dial := func(id string, observe func(recipes.Event)) *recipes.Client {
		c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{srv.Addr()}, ID: id, Observer: observe, SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute})
		require.NoError(t, err)
		return c
	}
	holder := dial("worker-1", nil)
	waiter := dial("worker-2", func(e recipes.Event) {
		if e.Type == recipes.EventQueued {
			close(queued)
		}
	})
	const path = "/locks/payments/ledger"
	_, err := holder.Mutex(path).Lock(ctx)
	require.NoError(t, err)
	go func() {
		defer close(left)
		_, _ = waiter.Mutex(path).Lock(ctx)
	}()
	<-queued
	return func() {
		cancel()
		<-left
		_ = waiter.Close() // holds nothing, so waits only briefly for the server
		require.NoError(t, holder.Close())
	}
}

// excerpt keeps the README's first screen to one screen.
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
	text := contents(t, filepath.Join("..", path))
	if region == "" {
		return text
	}
	_, rest, ok := strings.Cut(text, fmt.Sprintf("// %s: begin\n", region))
	require.True(t, ok, ref)
	body, _, ok := strings.Cut(rest, fmt.Sprintf("// %s: end\n", region))
	require.True(t, ok, ref)
	return unindent(body)
}

// unindent removes the first line's indentation from every line, and at the end that of the closing comment.
func unindent(s string) string {
	s = strings.TrimRight(s, "\t \n") + "\n"
	indent := s[:len(s)-len(strings.TrimLeft(s, "\t "))]
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, indent)
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\t", "    ")
}

// Links in all Markdown lead to files and headings that exist. The template of compare/RESULTS.md is checked in that page.
func TestEveryLinkResolves(t *testing.T) {
	links := 0
	require.NoError(t, filepath.WalkDir("..", func(page string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && slices.Contains([]string{".git", "bin", "report"}, entry.Name()) {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(page) != ".md" {
			return err
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)|(?:src|srcset)="([^"]+)"`).FindAllStringSubmatch(contents(t, page), -1) {
			if strings.Contains(m[1], "://") || strings.Contains(m[1], "{{") {
				continue
			}
			links++
			target := page
			if m[1]+m[3] != "" {
				target = filepath.Join(filepath.Dir(page), m[1]+m[3])
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s: %s", page, m[0])
			if m[2] != "" {
				require.Contains(t, anchors(t, target), m[2], "%s: %s", page, m[0])
			}
		}
		return nil
	}))
	require.Greater(t, links, 50)
}

// anchors are the headings of a page as GitHub names them.
func anchors(t *testing.T, page string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(contents(t, page), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// The index of the documentation has every page, the guide every runbook, and the reference every command.
func TestTheIndexHasEveryPage(t *testing.T) {
	index := contents(t, "../docs/README.md")
	for _, file := range pages(t)[1:] {
		prose := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(contents(t, file), "")
		require.Len(t, regexp.MustCompile(`(?m)^# `).FindAllString(prose, -1), 1, "%s has one title", file)
		if link := filepath.Base(file); link != "README.md" {
			require.Contains(t, index, "]("+link+")")
		}
	}
	guide, reference := contents(t, "../docs/provisioning.md"), contents(t, "../docs/reference.md")
	help, code := locktree(t, nil, "quickstart", "help")
	require.Zero(t, code, help)
	runbooks, code := locktree(t, nil, "quickstart", "help", "runbooks")
	require.Zero(t, code, runbooks)
	names := regexp.MustCompile(`(?m)^  (\S+) +\S`).FindAllStringSubmatch(runbooks, -1)
	require.NotEmpty(t, names)
	for _, m := range names {
		require.Contains(t, guide, "(../cmd/locktree/internal/help/topics/"+m[1]+".txt)")
	}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)  +[A-Z]`).FindAllStringSubmatch(help, -1) {
		require.Regexp(t, "(?m)^    locktree "+m[1]+" ", reference)
	}
}

// The blocks of the guide are one configuration. A block after "`PATH`:" is a file of its own.
func TestTheGuideIsAConfiguration(t *testing.T) {
	guide, dir, files := contents(t, "../docs/provisioning.md"), t.TempDir(), map[string]string{"worker.digest": "worker:kZ2CnRJYgWTJrMXwRbJdnFfGBlM=\n"}
	for _, m := range regexp.MustCompile("(?ms)(?:`(\\S+\\.locktree\\.hcl)`:\n\n)?^```hcl\n(.*?)^```$").FindAllStringSubmatch(guide, -1) {
		files[cmp.Or(m[1], "guide.locktree.hcl")] += m[2]
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	out, code := locktree(t, nil, dir, "validate")
	require.Zero(t, code, out)
}

// A runbook said that no command breaks a lock. Now it names the one that does. Commands and flags that pages name exist, in shell lines
// and within a sentence, and so do make targets.
func TestCommandsAndFlagsThatPagesNameExist(t *testing.T) {
	helps := map[string]string{}
	for _, page := range pages(t) {
		text := contents(t, page)
		for _, m := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z]+)").FindAllStringSubmatch(text, -1) {
			require.Contains(t, contents(t, "../Makefile"), "\n"+m[1]+":", page)
		}
		for _, m := range regexp.MustCompile("(?m)(?:`|^    )locktree ((?:state )?[a-z-]+)([^`\n]*)").FindAllStringSubmatch(text, -1) {
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
