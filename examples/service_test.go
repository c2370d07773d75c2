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

// The command line of the unit, as systemd would run it, with the credentials it loads: it does not start with the example of
// users as it is shipped, who has no password sees nothing, who has it sees the locks, and a SIGTERM ends it in good order.
func TestTheUnitServesThePage(t *testing.T) {
	unit, err := os.ReadFile("service/locktree-serve.service")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/locktree (.*)$`).FindStringSubmatch(string(unit))
	require.NotNil(t, line)
	srv := zktest.Start(t)
	dir := t.TempDir()
	stack := filepath.Join(dir, "stack")
	require.NoError(t, os.Mkdir(stack, 0o755))
	for from, to := range map[string]string{"quickstart/locks.locktree.hcl": "stack/locks.locktree.hcl", "service/web.yml": "web.yml"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "variables"), []byte(`servers = ["`+srv.Addr()+`"]`), 0o600))
	for _, credential := range regexp.MustCompile(`(?m)^LoadCredential=([^:]+):`).FindAllStringSubmatch(string(unit), -1) {
		require.FileExists(t, filepath.Join(dir, credential[1]), "the unit loads what this test has")
	}
	args := strings.NewReplacer("/etc/locktree/stack", stack, "${CREDENTIALS_DIRECTORY}", dir, ":7676", "127.0.0.1:0").Replace(line[1])

	programs, err := binary()
	require.NoError(t, err)
	env := append(os.Environ(), "ZOOKEEPER_SESSION=40")
	apply := exec.Command(filepath.Join(programs, "locktree"), "-chdir="+stack, "apply", "-auto-approve", "-var-file="+filepath.Join(dir, "variables"))
	apply.Env = env
	out, err := apply.CombinedOutput()
	require.NoError(t, err, string(out))
	c := exec.CommandContext(t.Context(), filepath.Join(programs, "locktree"), strings.Fields(args)...)
	c.Env = env
	out, err = c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is not a bcrypt hash")
	users, err := os.ReadFile(filepath.Join(dir, "web.yml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "web.yml"), withAPassword(users), 0o600))
	c = exec.CommandContext(t.Context(), filepath.Join(programs, "locktree"), strings.Fields(args)...)
	c.Env = env
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	url := make([]byte, 64)
	n, err := stdout.Read(url)
	require.NoError(t, err)
	address := strings.TrimSpace(string(url[:n]))

	code, _ := get(t, address+"locks", "guess")
	require.Equal(t, http.StatusUnauthorized, code)
	for body := ""; !strings.Contains(body, "/locks/payments/ledger"); {
		code, body = get(t, address+"locks?show=all", "demo")
		require.Equal(t, http.StatusOK, code)
	}
	require.Contains(t, string(unit), "\nExecReload=/bin/kill -HUP $MAINPID\n")
	_, before := get(t, address+"metrics", "demo")
	require.NoError(t, c.Process.Signal(syscall.SIGHUP)) // which ended it
	for read := regexp.MustCompile(`(?m)^locktree_config_last_reload_success_timestamp_seconds\b.*`); ; {
		if _, after := get(t, address+"metrics", "demo"); read.FindString(after) != read.FindString(before) {
			break
		}
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, stdout)
	require.NoError(t, c.Wait())
	// The request to close it may arrive behind the end of the process.
	require.Eventually(t, func() bool { return len(srv.Sessions()) == 0 }, 20*time.Second, time.Millisecond, "its session was not closed")
}

// The command line of the job's unit, with its environment and the password that it loads: the job runs under the lock, and where
// another machine has the lock it is skipped, which is no failure.
func TestTheUnitOfAJobRunsItOnce(t *testing.T) {
	text, err := os.ReadFile("service/locktree-job.service")
	require.NoError(t, err)
	unit := string(text)
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/locktree (.*) /usr/local/bin/report$`).FindStringSubmatch(unit)
	require.NotNil(t, line)
	programs, err := binary()
	require.NoError(t, err)
	locktree := filepath.Join(programs, "locktree")
	srv := zktest.Start(t)
	dir := t.TempDir()
	stack, err := os.ReadFile("quickstart/locks.locktree.hcl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), stack, 0o600))
	require.Contains(t, unit, "\nLoadCredential=password:")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("CANARYreports\n"), 0o600))
	env := os.Environ()
	for _, set := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(unit, -1) {
		env = append(env, strings.Fields(strings.NewReplacer("%d", dir, "zk1:2181,zk2:2181,zk3:2181", srv.Addr()).Replace(set[1]))...)
	}
	run := func(args ...string) string {
		c := exec.Command(locktree, args...)
		c.Env = env
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	run("-chdir="+dir, "apply", "-auto-approve", `-var=servers=["`+srv.Addr()+`"]`)
	job := strings.Fields(strings.NewReplacer("%H", "here", "-at-least 10m", "-at-least 1ms").Replace(line[1]))
	out := run(slices.Concat(job, []string{locktree}, job, []string{"false"})...) // the inner one is the other machine's
	require.Regexp(t, `^locktree: granted /locks/payments/ledger: .*
locktree: skipped: /locks/payments/ledger is held by here, .*since .*
locktree: released /locks/payments/ledger after .*
$`, out)
}

// withAPassword is the shipped file with the user demo, whose password is demo.
func withAPassword(users []byte) []byte {
	return bytes.Replace(users, []byte("NAME: HASH"), []byte("demo: $2a$10$hJ8GOK.VC4j.IEeVKdesmuRMRxlmTUU/aaZp9CgF4quT7HUSSkPWC"), 1)
}

func get(t *testing.T, url, password string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.SetBasicAuth("demo", password)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// What the container and the compose file give as arguments are flags there are.
func TestTheContainersArgumentsAreFlags(t *testing.T) {
	programs, err := binary()
	require.NoError(t, err)
	help, err := exec.Command(filepath.Join(programs, "locktree"), "serve", "-help").CombinedOutput()
	require.NoError(t, err)
	for _, file := range []string{"service/Containerfile", "service/compose.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lists := regexp.MustCompile(`(?m)^(?:CMD|    command:|HEALTHCHECK CMD|      test:) (\[.*\])$`).FindAllStringSubmatch(string(text), -1)
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

// What the manifest gives as arguments starts the page, on the port and with the probes that it names, and its parts fit together.
func TestTheManifestForKubernetesServesThePage(t *testing.T) {
	text, err := os.ReadFile("service/kubernetes.yaml")
	require.NoError(t, err)
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
	all := yaml.NewDecoder(bytes.NewReader(text))
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

	dir, srv := t.TempDir(), zktest.Start(t)
	users, err := os.ReadFile("service/web.yml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "web.yml"), withAPassword(users), 0o600))
	for i, arg := range c.Args {
		name, _, _ := strings.Cut(arg, "=")
		c.Args[i] = cmp.Or(map[string]string{"-listen": "-listen=127.0.0.1:0", "-servers": "-servers=" + srv.Addr(), "-web-config": "-web-config=" + filepath.Join(dir, "web.yml")}[name], arg)
	}
	programs, err := binary()
	require.NoError(t, err)
	serve := exec.CommandContext(t.Context(), filepath.Join(programs, "locktree"), c.Args...)
	serve.Env = append(os.Environ(), "ZOOKEEPER_SESSION=40")
	stdout, err := serve.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, serve.Start())
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	for _, p := range []probe{c.Live, c.Ready} {
		code, _ := get(t, strings.TrimSuffix(strings.TrimSpace(address), "/")+p.HTTPGet.Path, "guess")
		require.Equal(t, http.StatusOK, code, "a probe has no password")
	}
	require.NoError(t, serve.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, stdout)
	require.NoError(t, serve.Wait())
}

func words(t *testing.T, list string) (args []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(list), &args), list)
	return args
}

// image is what a Containerfile makes.
type image struct {
	root                    string
	env                     []string
	user                    uint32
	entrypoint, cmd, health []string
}

// containerImage does what the Containerfile says, with the Go and the certificates of this machine in place of those of the
// image that it builds from. What it does not understand fails the test.
func containerImage(t *testing.T) *image {
	text, err := os.ReadFile("service/Containerfile")
	require.NoError(t, err)
	build, made := t.TempDir(), &image{root: t.TempDir()}
	for line := range strings.Lines(string(text)) {
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

// command runs in a root directory with nothing but the image, as its user.
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

// No tool for containers is needed to see that the binary is static, finds all it needs in an empty root directory without
// /proc, /dev and a shell, needs no right to write there, and can be asked how it is. Only the addresses are the test's own.
func TestTheContainerServesThePage(t *testing.T) {
	effort.Proof(t, effort.Unraced) // its build compiles everything anew, without C
	made := containerImage(t)
	require.NotZero(t, made.user)
	require.FileExists(t, made.root+"/etc/ssl/certs/ca-certificates.crt")
	users, err := os.ReadFile("service/web.yml")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(made.root+"/etc/locktree", 0o755))
	require.NoError(t, os.WriteFile(made.root+"/etc/locktree/web.yml", withAPassword(users), 0o644))
	srv := zktest.Start(t)
	require.NoError(t, srv.Create("/java/orders/lock-0000000001", nil))
	args := strings.NewReplacer("-listen=:7676", "-listen=127.0.0.1:0", "zookeeper:2181", srv.Addr()).Replace(strings.Join(slices.Concat(made.entrypoint, made.cmd), " "))
	c := made.command(t, strings.Fields(args)...)
	var said bytes.Buffer
	c.Stderr = &said
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = c.Wait() // its words are the reason
		require.NoError(t, err, said.String())
	}
	address = strings.TrimSpace(address)

	health := func() error {
		ask := made.command(t, append(made.health, "-listen="+strings.Trim(strings.TrimPrefix(address, "http:"), "/"))...)
		return ask.Run()
	}
	require.NoError(t, health())
	for body := ""; !strings.Contains(body, "/java/orders"); {
		var code int
		code, body = get(t, address+"locks?show=all", "demo")
		require.Equal(t, http.StatusOK, code)
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, stdout)
	require.NoError(t, c.Wait())
	require.Error(t, health())
}

// systemd understands every line of the units, and has little left to advise on the one that serves. The man page is in the package.
func TestTheUnitsAreUnderstoodBySystemd(t *testing.T) {
	units := understood(t, "service/locktree-serve.service", "service/locktree-job.service", "service/locktree-job.timer")
	analyze(t, "security", "--offline=true", "--threshold=20", units[0]) // 2.0, of 10
}

// understood lets systemd read units, and returns the copies that name the program of the test.
func understood(t *testing.T, files ...string) (units []string) {
	t.Helper()
	programs, err := binary()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		unit := filepath.Join(dir, filepath.Base(file))
		units = append(units, unit)
		require.NoError(t, os.WriteFile(unit, bytes.ReplaceAll(text, []byte("/usr/bin/locktree"), []byte(filepath.Join(programs, "locktree"))), 0o644))
	}
	analyze(t, append([]string{"verify", "--man=no"}, units...)...)
	return units
}

// analyze asks systemd-analyze about units. What it does not understand of one, it ignores and tells.
func analyze(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	require.NoError(t, err, "systemd-analyze %v (Debian's package systemd has it): %s", args, out)
	require.NotRegexp(t, `/\S+\.(service|timer):`, string(out))
}
