package examples_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// execStart returns a unit's command, between the program's name and the end that the test replaces.
func execStart(t *testing.T, unit, end string) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/locktree (.*)` + end + `$`).FindStringSubmatch(contents(t, unit))
	require.NotNil(t, line)
	return line[1]
}

// page is a process that serves the page.
type page struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdout  *bufio.Reader
	address string
}

func serve(t *testing.T, cmd *exec.Cmd) *page {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &page{t: t, cmd: cmd, stdout: bufio.NewReader(out)}
	p.address, err = p.stdout.ReadString('\n')
	if err != nil {
		_ = cmd.Wait() // said has the reason
		require.NoError(t, err, said.String())
	}
	p.address = strings.Trim(p.address, "/\n")
	return p
}

func (p *page) get(path, password string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.address+path, nil)
	require.NoError(p.t, err)
	r.SetBasicAuth("demo", password)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(body)
}

// shows waits until the page shows a lock.
func (p *page) shows(lock string) {
	p.t.Helper()
	for body := ""; !strings.Contains(body, lock); {
		var code int
		code, body = p.get("/locks?show=all", "demo")
		require.Equal(p.t, http.StatusOK, code)
	}
}

// end stops the page in good order.
func (p *page) end() {
	p.t.Helper()
	began := time.Now()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, p.stdout)
	if err := p.cmd.Wait(); time.Since(began) < time.Second { // later, its time to end was up; cmd/locktree's tests are strict
		require.NoError(p.t, err)
	}
}

// The test runs the unit's command line as systemd would, with the credentials that it loads. The page does not start with the users file
// as shipped. Only users with the password see the locks. A SIGTERM ends the page in good order.
func TestTheUnitServesThePage(t *testing.T) {
	const file = "service/locktree-serve.service"
	unit, srv, dir := contents(t, file), zktest.Start(t), t.TempDir()
	stack := filepath.Join(dir, "stack")
	write(t, filepath.Join(stack, "locks.locktree.hcl"), contents(t, "quickstart/locks.locktree.hcl"))
	write(t, filepath.Join(dir, "web.yml"), contents(t, "service/web.yml"))
	write(t, filepath.Join(dir, "variables"), `servers = ["`+srv.Addr()+`"]`)
	for _, credential := range regexp.MustCompile(`(?m)^LoadCredential=([^:]+):`).FindAllStringSubmatch(unit, -1) {
		require.FileExists(t, filepath.Join(dir, credential[1]), "the unit loads what this test has")
	}
	args := strings.NewReplacer("/etc/locktree/stack", stack, "${CREDENTIALS_DIRECTORY}", dir, ":7676", "127.0.0.1:0").Replace(execStart(t, file, ""))
	cmd := func(args ...string) *exec.Cmd {
		c := command(t, args...)
		c.Env = append(os.Environ(), "ZOOKEEPER_SESSION=40")
		return c
	}
	out, err := cmd("-chdir="+stack, "apply", "-auto-approve", "-var-file="+filepath.Join(dir, "variables")).CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = cmd(strings.Fields(args)...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is not a bcrypt hash")
	write(t, filepath.Join(dir, "web.yml"), usersWithAPassword(t))
	p := serve(t, cmd(strings.Fields(args)...))
	code, _ := p.get("/locks", "guess")
	require.Equal(t, http.StatusUnauthorized, code)
	p.shows("/locks/payments/ledger")
	oldest := srv.Sessions()[0].ID // the page's own; doctor's checks have others
	require.Contains(t, unit, "\nExecReload=/bin/kill -HUP $MAINPID\n")
	_, before := p.get("/metrics", "demo")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP)) // it once ended the page
	for read := regexp.MustCompile(`(?m)^locktree_config_last_reload_success_timestamp_seconds\b.*`); ; {
		if _, after := p.get("/metrics", "demo"); read.FindString(after) != read.FindString(before) {
			break
		}
	}
	p.end()
	// The request to close the session may arrive after the process has ended. A check that was dialling then can leave a session that the
	// servers expire. On a busy machine, the process may have no time to send the request; then another one has to.
	closed := func() (gone bool) {
		for end := time.Now().Add(20 * time.Second); !gone && time.Now().Before(end); time.Sleep(time.Millisecond) {
			gone = !slices.ContainsFunc(srv.Sessions(), func(x zktest.Session) bool { return x.ID == oldest })
		}
		return gone
	}
	for tries := 1; !closed(); tries++ {
		require.Less(t, tries, 5, "no process closes its session")
		for _, x := range srv.Sessions() {
			srv.Expire(x.ID)
		}
		p = serve(t, cmd(strings.Fields(args)...))
		p.shows("/locks/payments/ledger")
		oldest = srv.Sessions()[0].ID
		p.end()
	}
}

// The test runs the command line of the job's unit, with its environment and password. The job runs under the lock. If another machine has
// the lock, the job is skipped, which is no failure.
func TestTheUnitOfAJobRunsItOnce(t *testing.T) {
	const file = "service/locktree-job.service"
	unit, srv, dir := contents(t, file), zktest.Start(t), t.TempDir()
	write(t, filepath.Join(dir, "locks.locktree.hcl"), contents(t, "quickstart/locks.locktree.hcl"))
	require.Contains(t, unit, "\nLoadCredential=password:")
	write(t, filepath.Join(dir, "password"), "CANARYreports\n")
	env := os.Environ()
	for _, set := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(unit, -1) {
		env = append(env, strings.Fields(strings.NewReplacer("%d", dir, "zk1:2181,zk2:2181,zk3:2181", srv.Addr()).Replace(set[1]))...)
	}
	run := func(args ...string) string {
		c := command(t, args...)
		c.Env = env
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	run("-chdir="+dir, "apply", "-auto-approve", `-var=servers=["`+srv.Addr()+`"]`)
	job := strings.Fields(strings.NewReplacer("%H", "here", "-at-least 10m", "-at-least 1ms").Replace(execStart(t, file, " /usr/local/bin/report")))
	skips := regexp.MustCompile(`^locktree: granted /locks/payments/ledger: .*
locktree: skipped: /locks/payments/ledger is held by here, .*since .*
locktree: released /locks/payments/ledger after .*
$`)
	out := ""
	for tries := 0; tries < 5 && !skips.MatchString(out); tries++ { // a busy machine may have no time to name the holder
		out = run(slices.Concat(job, []string{command(t).Path}, job, []string{"false"})...) // the inner call is the other machine's
	}
	require.Regexp(t, skips, out)
}

// usersWithAPassword is the shipped file with the user demo, whose password is demo.
func usersWithAPassword(t *testing.T) string {
	return strings.Replace(contents(t, "service/web.yml"), "NAME: HASH", "demo: $2a$10$hJ8GOK.VC4j.IEeVKdesmuRMRxlmTUU/aaZp9CgF4quT7HUSSkPWC", 1)
}

// The arguments in the Containerfile and the compose file are flags that exist.
func TestTheContainersArgumentsAreFlags(t *testing.T) {
	help, err := command(t, "serve", "-help").CombinedOutput()
	require.NoError(t, err)
	for _, file := range []string{"service/Containerfile", "service/compose.yaml"} {
		lists := regexp.MustCompile(`(?m)^(?:CMD|    command:|HEALTHCHECK CMD|      test:) (\[.*\])$`).FindAllStringSubmatch(contents(t, file), -1)
		require.Len(t, lists, 2, file)
		for _, list := range lists {
			args := words(t, list[1])
			require.Equal(t, "serve", args[slices.Index(args, "/locktree")+1])
			for _, flag := range args[slices.Index(args, "serve")+1:] {
				name, _, _ := strings.Cut(flag, "=")
				require.Contains(t, string(help), "  "+name+" ", file)
			}
		}
	}
}

// The manifest's arguments start the page, on the port and with the probes that it names. Its parts fit together.
func TestTheManifestForKubernetesServesThePage(t *testing.T) {
	type port struct {
		Name          string
		ContainerPort int    `yaml:"containerPort"`
		TargetPort    string `yaml:"targetPort"`
	}
	type probe struct {
		HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	}
	type document struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Selector yaml.Node
			Ports    []port
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Containers []struct {
						Args         []string
						Ports        []port
						Live         probe `yaml:"livenessProbe"`
						Ready        probe `yaml:"readinessProbe"`
						VolumeMounts []struct {
							MountPath string `yaml:"mountPath"`
						} `yaml:"volumeMounts"`
					}
				}
			}
		}
	}
	var deployment, service document
	all := yaml.NewDecoder(strings.NewReader(contents(t, "service/kubernetes.yaml")))
	require.NoError(t, all.Decode(&deployment))
	require.NoError(t, all.Decode(&service))
	require.ErrorIs(t, all.Decode(&document{}), io.EOF)
	require.Equal(t, []string{"Deployment", "Service"}, []string{deployment.Kind, service.Kind})
	var selects map[string]string
	require.NoError(t, service.Spec.Selector.Decode(&selects))
	require.Equal(t, deployment.Spec.Template.Metadata.Labels, selects)
	require.Len(t, deployment.Spec.Template.Spec.Containers, 1)
	c := deployment.Spec.Template.Spec.Containers[0]
	require.Len(t, c.Ports, 1)
	require.Equal(t, []string{c.Ports[0].Name, c.Ports[0].Name, c.Ports[0].Name}, []string{service.Spec.Ports[0].TargetPort, c.Live.HTTPGet.Port, c.Ready.HTTPGet.Port})
	require.Contains(t, c.Args, "-listen=:"+strconv.Itoa(c.Ports[0].ContainerPort))
	require.Contains(t, c.Args, "-web-config="+c.VolumeMounts[0].MountPath+"/web.yml")
	require.Contains(t, c.Args, "-host="+service.Metadata.Name)

	users, srv := filepath.Join(t.TempDir(), "web.yml"), zktest.Start(t)
	write(t, users, usersWithAPassword(t))
	for i, arg := range c.Args {
		name, _, _ := strings.Cut(arg, "=")
		c.Args[i] = cmp.Or(map[string]string{"-listen": "-listen=127.0.0.1:0", "-servers": "-servers=" + srv.Addr(), "-web-config": "-web-config=" + users}[name], arg)
	}
	cmd := command(t, c.Args...)
	cmd.Env = append(os.Environ(), "ZOOKEEPER_SESSION=40")
	p := serve(t, cmd)
	for _, asked := range []probe{c.Live, c.Ready} {
		code, _ := p.get(asked.HTTPGet.Path, "guess")
		require.Equal(t, http.StatusOK, code, "a probe has no password")
	}
	p.end()
}

func words(t *testing.T, list string) (args []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(list), &args), list)
	return args
}

// image is the result of a Containerfile.
type image struct {
	root                    string
	env                     []string
	user                    uint32
	entrypoint, cmd, health []string
}

// containerImage executes the Containerfile, with the Go and the certificates of this machine in place of those of the build image. A word
// that it does not know fails the test.
func containerImage(t *testing.T) *image {
	build, made := t.TempDir(), &image{root: t.TempDir()}
	for line := range strings.Lines(contents(t, "service/Containerfile")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#", "EXPOSE":
		case "FROM":
			require.Contains(t, []string{"docker.io/library/golang:1.26 AS build", "scratch"}, rest)
		case "WORKDIR":
			require.Equal(t, "/src", rest)
		case "RUN":
			c := exec.Command("sh", "-c", strings.ReplaceAll(rest, " /locktree ", " "+build+"/locktree "))
			c.Dir = ".."
			out, err := c.CombinedOutput()
			require.NoError(t, err, string(out))
		case "COPY":
			if rest == ". ." { // the sources, which are here
				continue
			}
			from, to, ok := strings.Cut(strings.TrimPrefix(rest, "--from=build "), " ")
			require.True(t, ok, line)
			if strings.HasSuffix(to, "/") {
				to += filepath.Base(from)
			}
			if _, err := os.Stat(build + from); err == nil {
				from = build + from
			}
			content, err := os.ReadFile(from)
			require.NoError(t, err, line)
			require.NoError(t, os.MkdirAll(filepath.Dir(made.root+to), 0o755))
			require.NoError(t, os.WriteFile(made.root+to, content, 0o755))
		case "USER":
			user, group, _ := strings.Cut(rest, ":")
			require.Equal(t, user, group)
			n, err := strconv.ParseUint(user, 10, 32)
			require.NoError(t, err, line)
			made.user = uint32(n)
		case "ENV":
			made.env = append(made.env, rest)
		case "ENTRYPOINT":
			made.entrypoint = words(t, rest)
		case "CMD":
			made.cmd = words(t, rest)
		case "HEALTHCHECK":
			made.health = words(t, strings.TrimPrefix(rest, "CMD "))
		default:
			require.Fail(t, "what is "+word+"?")
		}
	}
	return made
}

// command runs as the image's user, in a root directory with only the image.
func (i *image) command(t *testing.T, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Dir, c.Env = "/", i.env
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &syscall.Credential{Uid: i.user, Gid: i.user, NoSetGroups: true}}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(i.user), HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(i.user), HostID: os.Getgid(), Size: 1}}
	}
	return c
}

// The test needs no container tool. The binary is static, and finds all it needs in a root directory without /proc, /dev and a shell. It
// needs no right to write there, and answers the health check. Only the addresses are the test's own.
func TestTheContainerServesThePage(t *testing.T) {
	effort.Proof(t, effort.Unraced) // its build compiles everything again, without C
	made := containerImage(t)
	require.NotZero(t, made.user)
	require.FileExists(t, made.root+"/etc/ssl/certs/ca-certificates.crt")
	write(t, made.root+"/etc/locktree/web.yml", usersWithAPassword(t))
	require.NoError(t, os.Chmod(made.root+"/etc/locktree/web.yml", 0o644)) //nolint:gosec // its user reads it
	srv := zktest.Start(t)
	require.NoError(t, srv.Create("/java/orders/lock-0000000001", nil))
	args := strings.NewReplacer("-listen=:7676", "-listen=127.0.0.1:0", "zookeeper:2181", srv.Addr()).Replace(strings.Join(slices.Concat(made.entrypoint, made.cmd), " "))
	p := serve(t, made.command(t, strings.Fields(args)...))
	health := func() error {
		return made.command(t, append(made.health, "-listen="+strings.TrimPrefix(p.address, "http://"))...).Run()
	}
	require.NoError(t, health())
	p.shows("/java/orders")
	p.end()
	require.Error(t, health())
}

// systemd understands every line of the units, and has little advice on the one that serves. The man page is in the package.
func TestTheUnitsAreUnderstoodBySystemd(t *testing.T) {
	units := understood(t, "service/locktree-serve.service", "service/locktree-job.service", "service/locktree-job.timer")
	analyze(t, "security", "--offline=true", "--threshold=20", units[0]) // 2.0, of 10
}

// understood lets systemd read copies of units that name the test's program, and returns them.
func understood(t *testing.T, files ...string) (units []string) {
	t.Helper()
	dir := t.TempDir()
	for _, file := range files {
		unit := filepath.Join(dir, filepath.Base(file))
		units = append(units, unit)
		write(t, unit, strings.ReplaceAll(contents(t, file), "/usr/bin/locktree", command(t).Path))
	}
	analyze(t, append([]string{"verify", "--man=no"}, units...)...)
	return units
}

// analyze asks systemd-analyze about units. That program only reports what it does not understand in a unit, so analyze reads its output.
func analyze(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	require.NoError(t, err, "systemd-analyze %v (Debian's package systemd has it): %s", args, out)
	require.NotRegexp(t, `/\S+\.(service|timer):`, string(out))
}
