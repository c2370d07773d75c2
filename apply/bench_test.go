//go:build linux

package apply_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// BenchmarkScale prints the time and the largest resident size of the locktree process for large trees. Linux counts that size for an ended
// child. The server is a process of its own. The benchmark asserts only that each command does what it says; batch_test.go asserts the
// costs.
func BenchmarkScale(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "locktree")
	out, err := exec.Command("go", "build", "-o", bin, "../cmd/locktree").CombinedOutput()
	require.NoError(b, err, "%s", out)
	var rows []row
	for _, server := range []struct {
		name  string
		start func(*testing.B, string) string
		cases []scaleCase
	}{
		{"locktree dev", startDev, []scaleCase{
			{oneNamespace, 1_000}, {oneNamespace, 10_000}, {oneNamespace, 100_000},
			{hundredNamespaces, 100_000}, {modules, 100_000}, {writtenOut, 100_000}, {semaphores, 100_000},
		}},
		{"Apache ZooKeeper", startZooKeeper, []scaleCase{{oneNamespace, 1_000}, {oneNamespace, 10_000}, {oneNamespace, 100_000}}},
	} {
		for _, c := range server.cases {
			b.Run(fmt.Sprintf("%s/%s/%d", server.name, c.shape.name, c.locks), func(b *testing.B) {
				b.ReportMetric(0, "ns/op") // the table has the figures
				rows = append(rows, measure(b, bin, server.start(b, bin), c)...)
				rows[len(rows)-len(phases)].what = fmt.Sprintf("%d locks, %s, %s", c.locks, c.shape.name, server.name)
			})
		}
	}
	printTable(os.Stdout, rows)
}

type scaleCase struct {
	shape shape
	locks int
}

// row has the figures of one command.
type row struct {
	what, phase string
	took        time.Duration
	cpu         time.Duration
	peakMiB     float64
	result      string
}

// phases are the commands in order, each with the state of the configuration before it.
var phases = []struct {
	name    string
	changed bool // whether a part of the locks is changed, see shape.percent
	args    []string
	want    string
}{
	{"plan", false, []string{"plan", "-concise"}, `Plan: \d+ to add, 0 to change, 0 to destroy`},
	{"apply", false, []string{"apply", "-auto-approve", "-concise"}, `Apply complete! Resources: \d+ added`},
	{"plan again", false, []string{"plan"}, `No changes\.`},
	{"plan of changes", true, []string{"plan", "-concise"}, `Plan: 0 to add, \d+ to change, 0 to destroy`},
	{"plan -out", true, []string{"plan", "-concise", "-out=saved"}, `Plan: 0 to add, \d+ to change, 0 to destroy`},
	{"apply saved", true, []string{"apply", "saved"}, `Apply complete! Resources: 0 added, \d+ changed`},
	{"destroy", true, []string{"destroy", "-auto-approve"}, `Destroy complete! Resources: \d+ destroyed`},
}

var sent = regexp.MustCompile(`(\d+) transactions?, \d+ operations?, [\d.]+ kB`)

func measure(b *testing.B, bin, server string, c scaleCase) (rows []row) {
	dir := b.TempDir()
	for _, p := range phases {
		changed := 0
		if p.changed {
			changed = max(1, c.locks*c.shape.percent/100)
		}
		c.shape.write(b, dir, server, c.locks, changed)
		r := row{phase: p.name}
		run(b, &r, bin, dir, p.args)
		r.result = match(b, dir, regexp.MustCompile(p.want))
		if strings.HasPrefix(p.name, "plan") && p.name != "plan again" {
			r.result += "; " + match(b, dir, sent)
		}
		if info, err := os.Stat(filepath.Join(dir, "saved")); err == nil && p.name == "plan -out" {
			r.result += fmt.Sprintf("; file of %.1f MiB", float64(info.Size())/(1<<20))
		}
		rows = append(rows, r)
	}
	return rows
}

// run runs a command to its end and measures its cost. The output goes to a file, because Linux starts a child's memory count at its
// parent's size.
func run(b *testing.B, r *row, bin, dir string, args []string) {
	out, err := os.Create(filepath.Join(dir, "output"))
	require.NoError(b, err)
	defer out.Close()
	cmd := exec.Command(bin, append([]string{"-chdir=" + dir}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	start := time.Now()
	err = cmd.Run()
	r.took = time.Since(start)
	require.NoError(b, err, "%v: see %s", args, out.Name())
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.peakMiB = float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
}

// match returns the first match of a pattern in the command's output.
func match(b *testing.B, dir string, what *regexp.Regexp) string {
	out, err := os.Open(filepath.Join(dir, "output"))
	require.NoError(b, err)
	defer out.Close()
	for in := bufio.NewScanner(out); in.Scan(); {
		if m := what.FindString(in.Text()); m != "" {
			return m
		}
	}
	require.Fail(b, "not said", "%s", what)
	return ""
}

// startDev serves the in-memory ZooKeeper in a process of its own.
func startDev(b *testing.B, bin string) string {
	cmd := exec.Command(bin, "dev", "-listen=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return strings.TrimSpace(address)
}

func startZooKeeper(b *testing.B, _ string) string {
	return realzk.Start(b, realzk.Options{HeapMiB: 2048}).Addr
}

func printTable(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nphase\ttime\tCPU\tpeak\tresult\n")
	for _, r := range rows {
		if r.what != "" {
			fmt.Fprintf(t, "\n%s\n", r.what)
		}
		fmt.Fprintf(t, "%s\t%.2f s\t%.2f s\t%s MiB\t%s\n", r.phase, r.took.Seconds(), r.cpu.Seconds(),
			strconv.FormatFloat(r.peakMiB, 'f', 0, 64), r.result)
	}
	_ = t.Flush() // to the terminal
}

// shape is a way to declare many locks.
type shape struct {
	name string
	// files returns the files beside that of the ensemble, by name. They declare the given number of locks. The parameter changed is how
	// many of these, from the first on, have another description or limit.
	files func(locks, changed int) map[string]string
	// percent is the share of the locks that change.
	percent int
}

func (s shape) write(b *testing.B, dir, server string, locks, changed int) {
	files := s.files(locks, changed)
	files["ensemble.locktree.hcl"] = fmt.Sprintf(`
locktree {
  stack = "scale"
}
ensemble "main" {
  servers = [%q]
  root    = "/scale"
}
%s`, server, open)
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(b, os.WriteFile(path, []byte(text), 0o600))
	}
}

const open = `
principal "everybody" {
  scheme = "world"
  id     = "anyone"
}
acl "open" {
  allow_world = true
  grant {
    to    = [principal.everybody]
    allow = "admin"
  }
}
`

// mutexes is a block of n locks by for_each. range yields at most 1,024 numbers.
func mutexes(n, changed int) string {
	return fmt.Sprintf(`
  mutex "m" {
    for_each    = toset([for p in setproduct(range(%d), range(1000)) : tostring(p[0] * 1000 + p[1])])
    description = tonumber(each.value) < %d ? "A changed lock." : "Lock ${each.value}."
  }
`, n/1000, changed)
}

var oneNamespace = shape{"one namespace", func(locks, changed int) map[string]string {
	return map[string]string{"locks.locktree.hcl": "namespace \"n\" {\n  acl = acl.open\n" + mutexes(locks, changed) + "}\n"}
}, 1}

// semaphores all get another limit. Each has two children to read, an operation, and a change in the plan with the node before and after
// it. Their access lists are as long as in real use. Applying the saved plan took 740 MiB when each node had its own copies of them. With
// shared lists it took 425 MiB on either server, about main.memoryGoal, the soft limit.
var semaphores = shape{"semaphores, each changed", func(locks, changed int) map[string]string {
	return map[string]string{"locks.locktree.hcl": fmt.Sprintf(`
principal "admin" {
  scheme = "digest"
  id     = "provisioner:AAAAAAAAAAAAAAAAAAAAAAAAAAA="
}
principal "worker" {
  scheme = "digest"
  id     = "worker:BBBBBBBBBBBBBBBBBBBBBBBBBBB="
}
acl "three" {
  allow_world = true
  grant {
    to    = [principal.everybody, principal.admin]
    allow = "admin"
  }
  grant {
    to    = [principal.worker]
    allow = "lock"
  }
}
namespace "n" {
  acl = acl.three
  semaphore "s" {
    for_each = toset([for p in setproduct(range(%d), range(1000)) : tostring(p[0] * 1000 + p[1])])
    permits  = tonumber(each.value) < %d ? 7 : 3
  }
}
`, locks/1000, changed)}
}, 100}

var hundredNamespaces = shape{"namespaces of 1,000", func(locks, changed int) map[string]string {
	each := fmt.Sprintf("  acl      = acl.open\n  for_each = toset([for i in range(%d) : tostring(i)])\n", locks/1000)
	return map[string]string{"locks.locktree.hcl": "namespace \"n\" {\n" + each + mutexes(1000, changed*1000/locks) + "}\n"}
}, 1}

var modules = shape{"modules of 1,000", func(locks, changed int) map[string]string {
	return map[string]string{
		"locks.locktree.hcl": fmt.Sprintf(`
module "team" {
  source   = "./team"
  for_each = toset([for i in range(%d) : tostring(i)])
  name     = each.key
}
`, locks/1000),
		"team/locks.locktree.hcl": "variable \"name\" {\n  type = string\n}\n" + open +
			"namespace \"team\" {\n  name = \"team-${var.name}\"\n  acl  = acl.open\n" + mutexes(1000, changed*1000/locks) + "}\n",
	}
}, 1}

// writtenOut is what a generator writes: a block for each lock.
var writtenOut = shape{"written out", func(locks, changed int) map[string]string {
	var b strings.Builder
	for i := range locks {
		if i%1000 == 0 {
			fmt.Fprintf(&b, "namespace \"n%d\" {\n  acl = acl.open\n", i/1000)
		}
		fmt.Fprintf(&b, "  mutex \"lock-%d\" {\n    description = \"Lock %d, changed: %t.\"\n  }\n", i, i, i < changed)
		if i%1000 == 999 {
			b.WriteString("}\n")
		}
	}
	return map[string]string{"locks.locktree.hcl": b.String()}
}, 1}

// BenchmarkBesideTerraform prints the costs of a thousand locks, and those of a thousand plain nodes with Terraform and the tfzk provider,
// on the same Apache ZooKeeper. Both programs must be on the PATH. "go build" builds them from github.com/hashicorp/terraform and
// github.com/tfzk/terraform-provider-zookeeper. Terraform's memory is that of its own process, without the provider's.
func BenchmarkBesideTerraform(b *testing.B) {
	terraform, provider := onPath(b, "terraform"), onPath(b, "terraform-provider-zookeeper")
	b.ReportMetric(0, "ns/op") // the table has the figures
	bin := filepath.Join(b.TempDir(), "locktree")
	out, err := exec.Command("go", "build", "-o", bin, "../cmd/locktree").CombinedOutput()
	require.NoError(b, err, "%s", out)
	const locks = 1_000
	server := startZooKeeper(b, bin)

	rows := measure(b, bin, server, scaleCase{oneNamespace, locks})
	rows[0].what = fmt.Sprintf("%d locks, %s, locktree", locks, oneNamespace.name)
	peer := measureTerraform(b, terraform, provider, server, locks)
	peer[0].what = fmt.Sprintf("%d nodes, Terraform with tfzk", locks)
	printTable(os.Stdout, append(rows, peer...))
}

func onPath(b *testing.B, program string) string {
	path, err := exec.LookPath(program)
	if err != nil {
		b.Skipf("There is no %s on the PATH to compare with.", program)
	}
	path, err = filepath.Abs(path)
	require.NoError(b, err)
	return path
}

// terraformSays matches what a Terraform command says it did, or would do.
var terraformSays = regexp.MustCompile(`(Plan:|No changes|Resources:)[^.]*`)

// measureTerraform runs the same commands with nodes that hold the same texts. A change gives one node in a hundred another text. The nodes
// use count, which suits Terraform best: with for_each it evaluates the set again for each node, and a plan of 2 s takes 40 s.
func measureTerraform(b *testing.B, terraform, provider, server string, locks int) (rows []row) {
	dir := b.TempDir()
	settings := filepath.Join(dir, "terraformrc")
	require.NoError(b, os.WriteFile(settings, fmt.Appendf(nil, `
provider_installation {
  dev_overrides {
    "tfzk/zookeeper" = %q
  }
  direct {}
}
`, filepath.Dir(provider)), 0o600))
	b.Setenv("TF_CLI_CONFIG_FILE", settings)
	b.Setenv("CHECKPOINT_DISABLE", "1") // it would ask its maker for new versions

	for _, p := range phases {
		changed := 0
		if p.changed {
			changed = locks / 100
		}
		require.NoError(b, os.WriteFile(filepath.Join(dir, "main.tf"), fmt.Appendf(nil, `
terraform {
  required_providers {
    zookeeper = { source = "tfzk/zookeeper" }
  }
}
provider "zookeeper" {
  servers = %q
}
resource "zookeeper_znode" "n" {
  path = "/terraform"
}
resource "zookeeper_znode" "m" {
  count = %d
  path  = "${zookeeper_znode.n.path}/m-${count.index}"
  data  = jsonencode({ kind = "mutex", description = count.index < %d ? "A changed lock." : "Lock ${count.index}." })
}
`, server, locks, changed), 0o600))
		r := row{phase: p.name}
		args := slices.DeleteFunc(slices.Clone(p.args), func(arg string) bool { return arg == "-concise" }) // Terraform has no such flag
		run(b, &r, terraform, dir, slices.Insert(args, 1, "-no-color"))
		r.result = match(b, dir, terraformSays)
		rows = append(rows, r)
	}
	return rows
}
