package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// runner is a machine of a CI service that has checked out examples/ci, and an in-memory ZooKeeper that it reaches.
type runner struct {
	t         *testing.T
	workspace string
	temp      string
	env       []string
}

func newRunner(t *testing.T) *runner {
	r := &runner{t: t, workspace: t.TempDir(), temp: t.TempDir()}
	release, err := released()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(release, filepath.Join(r.temp, "v0.1.0")))
	r.write("locks.locktree.hcl", r.read("../examples/ci/locks.locktree.hcl"))
	r.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.temp, "RUNNER_TEMP=" + r.temp, "TMPDIR=" + r.temp, "GITHUB_WORKSPACE=" + r.workspace,
		"LOCKTREE_DOWNLOADS=file://" + r.temp, "LOCKTREE_VERSION=v0.1.0", "ZOOKEEPER_SESSION=40",
	}
	r.must("install")
	r.env = append(r.env, "ZOOKEEPER_SERVERS="+r.server())
	return r
}

// server is the address of a server that ends with the test.
func (r *runner) server() string {
	dev := exec.Command(filepath.Join(r.temp, "locktree-bin", "locktree"), "dev", "-listen=127.0.0.1:0")
	stdout, err := dev.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, dev.Start())
	r.t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM)
		_ = dev.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(r.t, err)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	require.NotEmpty(r.t, address, line)
	return address
}

func (r *runner) read(file string) string {
	text, err := os.ReadFile(file)
	require.NoError(r.t, err)
	return string(text)
}

func (r *runner) write(name, text string) {
	require.NoError(r.t, os.WriteFile(filepath.Join(r.workspace, name), []byte(text), 0o644)) //nolint:gosec // a checkout
}

func (r *runner) edit(old, now string) {
	file := r.read(filepath.Join(r.workspace, "locks.locktree.hcl"))
	require.Contains(r.t, file, old)
	r.write("locks.locktree.hcl", strings.Replace(file, old, now, 1))
}

// shell runs a line of a pipeline.
func (r *runner) shell(line string, env ...string) (string, error) {
	c := exec.CommandContext(r.t.Context(), "bash", "-euo", "pipefail", "-c", line)
	c.Dir, c.Env = r.workspace, append(append([]string{}, r.env...), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

func (r *runner) ci(command string) (string, error) {
	script, err := filepath.Abs("action/ci.sh")
	require.NoError(r.t, err)
	return r.shell(script + " " + command)
}

func (r *runner) must(command string) string {
	r.t.Helper()
	out, err := r.ci(command)
	require.NoError(r.t, err, out)
	return out
}

// step is a step of action.yml.
type step struct {
	ID, If, Run, Shell string
	Env                map[string]string
}

var (
	expression = regexp.MustCompile(`\$\{\{ (\S+) \}\}`)
	comparison = regexp.MustCompile(`^inputs\.command (==|!=) '(\w+)'$`)
)

// holds evaluates the condition of a step, if it has one: comparisons of the command, joined by one operator.
func (s *step) holds(t *testing.T, command string) bool {
	if s.If == "" {
		return true
	}
	all := !strings.Contains(s.If, "||")
	for _, part := range regexp.MustCompile(` (?:\|\||&&) `).Split(s.If, -1) {
		m := comparison.FindStringSubmatch(part)
		require.NotNil(t, m, part)
		if holds := (m[2] == command) == (m[1] == "=="); holds != all {
			return holds
		}
	}
	return all
}

// uses does what GitHub does with action.yml: it sets the inputs, runs the steps whose condition holds, and returns the outputs.
func (r *runner) uses(command string) (outputs map[string]string, said string, err error) {
	var action struct {
		Inputs  map[string]struct{ Default string }
		Outputs map[string]struct{ Value string }
		Runs    struct{ Steps []step }
	}
	require.NoError(r.t, yaml.Unmarshal([]byte(r.read("action/action.yml")), &action))
	here, err := filepath.Abs("action")
	require.NoError(r.t, err)
	values := map[string]string{"github.action_path": here}
	for name, input := range action.Inputs {
		values["inputs."+name] = input.Default
	}
	values["inputs.command"], values["inputs.version"] = command, "v0.1.0"
	value := func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(e string) string {
			v, known := values[expression.FindStringSubmatch(e)[1]]
			require.True(r.t, known || strings.Contains(e, "steps."), e)
			return v
		})
	}
	for _, s := range action.Runs.Steps {
		require.Equal(r.t, "bash", s.Shell)
		if !s.holds(r.t, command) {
			continue
		}
		file := filepath.Join(r.temp, "output")
		env := []string{"GITHUB_ACTIONS=true", "GITHUB_OUTPUT=" + file, "GITHUB_STEP_SUMMARY=" + filepath.Join(r.temp, "summary"), "GITHUB_PATH=" + filepath.Join(r.temp, "path")}
		for name, text := range s.Env {
			env = append(env, name+"="+value(text))
		}
		require.NoError(r.t, os.WriteFile(file, nil, 0o600))
		out, err := r.shell(s.Run, env...)
		said += out
		if err != nil {
			return nil, said, err
		}
		for line := range strings.Lines(r.read(file)) {
			name, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			values["steps."+s.ID+".outputs."+name] = v
		}
	}
	outputs = map[string]string{}
	for name, output := range action.Outputs {
		outputs[name] = value(output.Value)
	}
	return outputs, said, nil
}

// succeeds runs a command of the action that must not fail the job.
func (r *runner) succeeds(command string) (outputs map[string]string, said string) {
	r.t.Helper()
	outputs, said, err := r.uses(command)
	require.NoError(r.t, err, said)
	return outputs, said
}

// fails runs a command that must fail the job, with these words.
func (r *runner) fails(command, words string) {
	r.t.Helper()
	_, said, err := r.uses(command)
	require.Error(r.t, err)
	require.Regexp(r.t, words, said)
	require.NotRegexp(r.t, obeyed, said)
}

// obeyed matches a line of a log that a runner takes for a command: GitHub's, in both spellings, Azure's, TeamCity's, and GitLab's
// sections.
var obeyed = regexp.MustCompile(`(?m)^[\s\p{Z}\x{85}]*::|##\[|##vso\[|##teamcity\[|[\x00-\x08\x0b-\x1f\x7f]`)

// hostile writes what a stranger may put into a configuration: commands of runners, in values.
func (r *runner) hostile() {
	r.write("more.locktree.hcl", `output "lines" {
  value = "one\n::warning::of a value\n\t ::error::of a value\n\u00a0::add-mask::a\n\u2003::stop-commands::hush\na ##[add-mask]b\n###[error]c\n##vso[task.complete]\nd"
}

check "section" {
  assert {
    condition     = false
    error_message = "bad\n::set-output name=changes::false\n::stop-commands::zz\nsection_start:1:x\r\u001b[0Khello"
  }
}
`)
}

// On a pull request, the action's summary shows the plan in a code block. A merge applies the saved plan, and a stale plan is refused.
func TestActionPlansAndApplies(t *testing.T) {
	r := newRunner(t)
	r.hostile()
	outputs, said := r.succeeds("plan")
	require.Equal(t, map[string]string{"plan": "./locks.ltplan", "summary": "./locks.md", "changes": "true"}, outputs)
	require.Contains(t, said, "::warning::of a value")
	require.Contains(t, said, "::set-output name=changes::false")
	require.NotRegexp(t, obeyed, said)
	title, block, _ := strings.Cut(r.read(filepath.Join(r.workspace, "locks.md")), "\n\n")
	require.Equal(t, "**locktree plan**", title)
	for line := range strings.Lines(block) {
		require.True(t, strings.HasPrefix(line, "    "), "%q ends the code block", line)
	}
	require.Contains(t, r.read(filepath.Join(r.temp, "summary")), "Plan: 2 to add")
	require.Contains(t, r.read(filepath.Join(r.temp, "path")), "locktree-bin")
	r.succeeds("apply")
	require.Contains(t, r.read(filepath.Join(r.temp, "summary")), "Apply complete! Resources: 2 added")

	outputs, _ = r.succeeds("plan")
	require.Equal(t, "false", outputs["changes"])
	r.edit("One compaction", "At most one compaction")
	r.succeeds("plan")
	_, err := r.shell(`"$RUNNER_TEMP/locktree-bin/locktree" apply -auto-approve -input=false`)
	require.NoError(t, err)
	r.fails("apply", "stale")
}

// A plan that is longer than a comment may be is cut at a line, and the log has the rest.
func TestActionCutsALongPlan(t *testing.T) {
	r := newRunner(t)
	r.write("more.locktree.hcl", "namespace \"many\" {\n  acl = acl.open\n  mutex \"m\" {\n    for_each    = toset([for i in range(900) : format(\"%d\", i)])\n"+
		"    description = \"One of many mutexes, with a text of some length\"\n  }\n}\n")
	_, said := r.succeeds("plan")
	summary := r.read(filepath.Join(r.workspace, "locks.md"))
	require.Less(t, len(summary), 61_000)
	require.True(t, strings.HasSuffix(summary, "\n    ... The log of the job has the rest.\n"), summary[len(summary)-200:])
	require.Contains(t, said, "Plan: 903 to add")
}

// A mistake fails the job, with a message at its place.
func TestActionFails(t *testing.T) {
	r := newRunner(t)
	r.edit(`"payments"`, `  "payments"`)
	r.fails("check", "locks.locktree.hcl\nThe files above are not formatted.")
	r.edit(`  "payments"`, `"payments"`)
	r.edit("acl.open", "acl.opne")
	r.fails("check", `on locks.locktree.hcl line \d+`)
	const named = "q\n::set-output name=x::y\nz\x1b[31m\r##[error].locktree.hcl"
	r.write(named, "locals {\nx=1\n}\n")
	r.hostile()
	r.fails("check", "::set-output name=x::y")
	r.fails("plan", "")
	require.NoError(t, os.Remove(filepath.Join(r.workspace, named)))
	r.edit("acl.opne", "acl.open")
	r.succeeds("plan")
	r.fails("nonsense", "usage: ci.sh")
}

// A release that was changed in transit is not installed.
func TestActionChecksWhatItInstalls(t *testing.T) {
	r := newRunner(t)
	require.NoError(t, os.Remove(filepath.Join(r.temp, "v0.1.0")))
	require.NoError(t, os.RemoveAll(filepath.Join(r.temp, "locktree-bin")))
	out, err := r.ci("install")
	require.Error(t, err)
	require.Contains(t, out, "Cannot download file://")
	release, err := released()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(r.temp, "v0.1.0"), 0o755))
	archives, err := filepath.Glob(release + "/*.tar.gz")
	require.NoError(t, err)
	require.Len(t, archives, 1)
	for name, text := range map[string]string{"SHA256SUMS": r.read(release + "/SHA256SUMS"), filepath.Base(archives[0]): "something else"} {
		require.NoError(t, os.WriteFile(filepath.Join(r.temp, "v0.1.0", name), []byte(text), 0o600))
	}
	out, err = r.ci("install")
	require.Error(t, err)
	require.Contains(t, out, "is not what SHA256SUMS of v0.1.0 says")
	require.NoDirExists(t, filepath.Join(r.temp, "locktree-bin"))
}

// issues stands for gh with one repository: it keeps the number of the open issue in a file, and its calls in another.
const issues = `#!/usr/bin/env bash
echo "$1 $2" >>"$RUNNER_TEMP/asked"
case "$1 $2" in
"issue list") cat "$RUNNER_TEMP/open" 2>/dev/null || : ;;
"issue create") echo 7 >"$RUNNER_TEMP/open" ;;
"issue close") [ "$3" = 7 ] && rm "$RUNNER_TEMP/open" ;;
"issue edit") [ "$3" = 7 ] ;;
"label create") ;;
*) exit 1 ;;
esac
`

// However many nights the locks differ, there is one issue. Afterwards there is none.
func TestActionKeepsOneIssueForDrift(t *testing.T) {
	r := newRunner(t)
	require.NoError(t, os.WriteFile(filepath.Join(r.temp, "locktree-bin", "gh"), []byte(issues), 0o755)) //nolint:gosec // a program
	for range 2 {
		r.succeeds("drift")
	}
	require.FileExists(t, filepath.Join(r.temp, "open"))
	r.must("apply")
	for range 2 {
		r.succeeds("drift")
	}
	require.NoFileExists(t, filepath.Join(r.temp, "open"))
	require.Equal(t, "issue list\nlabel create\nissue create\nissue list\nissue edit\nissue list\nissue close\nissue list\n", r.read(filepath.Join(r.temp, "asked")))
}

// The jobs for GitLab run the same script.
func TestGitLabPlansAndApplies(t *testing.T) {
	r := newRunner(t)
	type job struct {
		Extends      string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Artifacts    struct{ Paths []string }
	}
	var jobs map[string]job
	text := r.read("action/gitlab.yml")
	require.NoError(t, yaml.Unmarshal([]byte(strings.Replace(text, "\nvariables:", "\n.variables:", 1)), &jobs))
	script, err := filepath.Abs("action/ci.sh")
	require.NoError(t, err)
	r.env = append(r.env, "LOCKTREE_CI=file://"+script, "LOCKTREE_DIRECTORY=.")
	for _, name := range []string{".locktree-check", ".locktree-plan", ".locktree-apply"} {
		j := jobs[name]
		require.NotEmpty(t, j.Script, name)
		out, err := r.shell(strings.Join(append(jobs[j.Extends].BeforeScript, j.Script...), "\n"))
		require.NoError(t, err, "%s: %s", name, out)
		for _, path := range j.Artifacts.Paths {
			require.FileExists(t, filepath.Join(r.workspace, strings.ReplaceAll(path, "$LOCKTREE_DIRECTORY", ".")))
		}
	}
	var pipeline map[string]struct{ Extends string }
	require.NoError(t, yaml.Unmarshal([]byte(regexp.MustCompile(`(?m)^include:\n.*\n`).ReplaceAllString(r.read("../examples/ci/.gitlab-ci.yml"), "")), &pipeline))
	for _, name := range []string{"plan", "apply"} {
		require.Contains(t, jobs, pipeline[name].Extends)
	}
}
