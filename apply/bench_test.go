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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// BenchmarkScale prints what large trees cost a person who runs the program: time
// and the largest resident size of the locktree process, as Linux counts it for an
// ended child, against a server in a process of its own. Nothing is asserted but
// that each command does what it says; bench_facts_test.go has the assertions.
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
				b.ReportMetric(0, "ns/op") // the figures stand in the table
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

// row is one command.
type row struct {
	what, phase string
	took        time.Duration
	cpu         time.Duration
	peakMiB     float64
	result      string
}

// phases are the commands, in order; what the configuration says before each.
var phases = []struct {
	name    string
	changed bool // a part of the locks, see shape.percent
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

// run runs a command to its end and notes what it cost. What it says goes to a file:
// Linux starts the count of a child's memory at its parent's size.
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

// match returns what the command said of that form.
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
