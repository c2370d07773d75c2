package examples_test

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A runbook is a help topic. The test types, writes or compares each block that is indented by six blanks or more:
//
//	$ COMMAND        typed into a shell; it succeeds, unless the lines below it have one that begins with "Error:"
//	OTHER LINE       what the command shows; ... is any text, and alone on a line any lines. Without one, nothing is compared
//	configuration    written to the file that the sentence before it names last, as in "locks.locktree.hcl:";
//	                 with + and - in front of lines, a change of that file; after "already has:", text that it contains
//
// The commands are typed into the operator's shell, but below a sentence that says "on every server" or "on one server" they are typed
// there. A block below a sentence with one of the words in skip is for other servers than the test's.
type runbook struct {
	t       *testing.T
	topic   string
	dir     string            // the operator's
	secrets map[string]string // what is typed at "read -rs NAME"
	users   []string          // the secrets may be their passwords
	shell   *shell            // the operator's
	hosts   []*shell          // a shell on every server
	skip    []string

	// The in-memory server has no files and no process. These functions stand in for the servers' blocks that begin with these lines.
	instead map[string]func()

	// edit, when not nil, makes the changes to the topic that it leaves to its reader.
	edit func(text string) string

	// between is called after numbered step n. Text before the first is step 0.
	between func(step int)
}

// prompted is how a line with a command begins.
const prompted = "      $ "

// block is an indented part of a runbook.
type block struct {
	line  int    // in the topic
	step  int    // the number in front of its paragraph
	under string // the paragraph it belongs to
	text  string
}

var (
	stepNumber = regexp.MustCompile(`^ *(\d+)\. `)
	fileName   = regexp.MustCompile(`(\S+\.(?:hcl|service|timer))(?: already has)?:$`)
	onServers  = regexp.MustCompile(`(?i)\bon (one|every) server\b`)
	asksFor    = regexp.MustCompile(`^read -rs (\w+)`)
)

// blocks reads a topic.
func blocks(text string) (out []block) {
	step, under, fresh := 0, "", true
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.TrimSpace(line) == "":
			fresh = true
		case !strings.HasPrefix(line, "      "):
			if fresh {
				under, fresh = "", false
			}
			if m := stepNumber.FindStringSubmatch(line); m != nil {
				_, _ = fmt.Sscan(m[1], &step)
			}
			under = strings.TrimSpace(under + " " + strings.TrimSpace(line))
		default:
			b := block{line: i + 1, step: step, under: under}
			typed := strings.HasPrefix(line, prompted)
			for ; i < len(lines) && (strings.HasPrefix(lines[i], "      ") || lines[i] == "") && typed == (typed || strings.HasPrefix(lines[i], prompted)); i++ {
				b.text += strings.TrimPrefix(lines[i], "      ") + "\n"
			}
			i--
			b.text = strings.TrimRight(b.text, "\n") + "\n"
			out = append(out, b)
			fresh = true
		}
	}
	return out
}

// play does what the topic says.
func (r *runbook) play() {
	text, code := r.shell.run("locktree help " + r.topic)
	require.Zero(r.t, code, text)
	if r.edit != nil {
		text = r.edit(text)
	}
	done := map[string]bool{}
	all := blocks(text)
	for i, b := range all {
		first, _, _ := strings.Cut(b.text, "\n")
		switch instead, own := r.instead[first]; {
		case slices.ContainsFunc(r.skip, func(word string) bool { return strings.Contains(b.under, word) }):
		case own:
			instead()
			done[first] = true
		case !strings.HasPrefix(b.text, "$ "):
			r.write(b)
		case onServers.MatchString(b.under):
			require.NotEmpty(r.t, r.hosts, "%s, line %d: what comes to the same?", r.topic, b.line)
			hosts := r.hosts
			if onServers.FindStringSubmatch(b.under)[1] == "one" {
				hosts = hosts[:1]
			}
			for _, host := range hosts {
				r.commands(host, b)
			}
		default:
			require.NotContains(r.t, b.text, "zkServer.sh", "%s, line %d: on which server?", r.topic, b.line)
			r.commands(r.shell, b)
		}
		if r.between != nil && (i+1 == len(all) || all[i+1].step > b.step) {
			r.between(b.step)
		}
	}
	require.Len(r.t, done, len(r.instead), "the topic has no such blocks any more: %v", slices.Collect(maps.Keys(r.instead)))
}

// write makes, or changes, a configuration file.
func (r *runbook) write(b block) {
	m := fileName.FindStringSubmatch(b.under)
	require.NotNil(r.t, m, "%s, line %d: which file is this?", r.topic, b.line)
	path := filepath.Join(r.dir, m[1])
	before, after := "", ""
	changes := false
	for line := range strings.Lines(b.text) {
		switch {
		case strings.HasPrefix(line, "+"):
			after += unmarked(line)
			changes = true
		case strings.HasPrefix(line, "-"):
			before += unmarked(line)
			changes = true
		default:
			before += unmarked(line)
			after += unmarked(line)
		}
	}
	exists := strings.HasSuffix(b.under, "already has:")
	if !changes && !exists {
		write(r.t, path, b.text)
		return
	}
	text := contents(r.t, path)
	if exists {
		require.Contains(r.t, text, b.text, "%s, line %d", r.topic, b.line)
		return
	}
	require.Equal(r.t, 1, strings.Count(text, before), "%s, line %d: where in %s is this?\n%s\nin\n%s", r.topic, b.line, m[1], before, text)
	write(r.t, path, strings.Replace(text, before, after, 1))
	out, code := r.shell.run("locktree fmt")
	require.Zero(r.t, code, out)
}

func unmarked(line string) string {
	if line == "\n" {
		return line
	}
	return strings.TrimPrefix(line[1:], " ")
}

// commands types a block.
func (r *runbook) commands(to *shell, b block) {
	all := strings.Split("\n"+b.text, "\n$ ")
	for _, one := range all[1:] {
		command, want := one, ""
		for end := 0; ; { // a backslash continues a command on the next line
			n := strings.IndexByte(one[end:], '\n')
			if n < 0 {
				break
			}
			end += n + 1
			if !strings.HasSuffix(one[:end], "\\\n") {
				command, want = one[:end-1], one[end:]
				break
			}
		}
		var input []string
		if m := asksFor.FindStringSubmatch(command); m != nil {
			require.Contains(r.t, r.secrets, m[1])
			input = []string{r.secrets[m[1]]}
		}
		got, code := to.run(command, input...)
		fails := strings.HasPrefix(want, "Error:") || strings.Contains(want, "\nError:")
		r.t.Logf("$ %s\n%s", command, got)
		where := fmt.Sprintf("%s, line %d: $ %s\n%s", r.topic, b.line, command, got)
		require.Equal(r.t, fails, code != 0, "exit code %d: %s", code, where)
		if strings.TrimSpace(want) != "" {
			require.Regexp(r.t, pattern(want), strings.TrimSpace(got)+"\n", where)
		}
		r.quiet(got)
	}
}

// pattern returns the pattern of the lines that a runbook shows.
func pattern(want string) string {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(strings.TrimSpace(want) + "\n") {
		line = strings.TrimRight(line, " \n")
		if line == "..." {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`) + ` *\n`)
	}
	return b.String() + `\z`
}

// quiet checks that an output has no password, and no digest of one.
func (r *runbook) quiet(out string) {
	for name, secret := range r.secrets {
		require.NotContains(r.t, out, secret, "the value of %s", name)
		for _, user := range r.users {
			require.NotContains(r.t, out, digestOf(user, secret), "the digest of %s", name)
		}
	}
}

func digestOf(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// hostShell is a shell on the machine of a server: Debian's zkServer.sh and zkCli.sh read the location of the server's files from zkEnv.sh
// beside them.
func hostShell(t *testing.T, server *realzk.Server, backup string) *shell {
	const debians = "/usr/share/zookeeper/bin"
	bin := t.TempDir()
	for _, name := range []string{"zkServer.sh", "zkCli.sh"} {
		_, err := os.Stat(filepath.Join(debians, name))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(filepath.Join(debians, name), filepath.Join(bin, name)))
	}
	environment := fmt.Sprintf(". %s/zkEnv.sh\nZOOCFGDIR=%s\nZOOCFG=%s/zoo.cfg\nZOO_LOG_DIR=%s\nJMXDISABLE=true\nJVMFLAGS='-Xmx192m -XX:TieredStopAtLevel=1 -Dzookeeper.preAllocSize=1024'\n", debians, server.Dir, server.Dir, server.Dir)
	write(t, filepath.Join(bin, "zkEnv.sh"), environment)
	data := filepath.Join(server.Dir, "data")
	write(t, filepath.Join(data, "zookeeper_server.pid"), fmt.Sprint(server.Pid))
	return newShell(t, server.Dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "DATA="+data, "BACKUP="+backup))
}
