package main

import (
	goversion "go/version"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that imports the library downloads exactly one more module. The adapters to Prometheus and OpenTelemetry are modules of their
// own, and raise no version that it uses. The page of serve needs exporter-toolkit, which does raise Prometheus' modules, but only to the
// versions that it needs itself.
func TestAProgramThatImportsRecipesDownloadsOneModule(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	cached, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	dir, cache := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("go.mod", "module example.com/consumer\n\ngo 1.25.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	write("main.go", "package main\n\nimport _ \""+module+"/recipes\"\n\nfunc main() {}\n")
	list := exec.Command("go", "list", "-deps", ".") // downloads what a build does, and compiles nothing
	list.Dir = dir
	list.Env = append(os.Environ(), "GOFLAGS=-mod=mod -modcacherw", "GOWORK=off", "GOMODCACHE="+cache, "GOSUMDB=off",
		"GOPROXY=file://"+strings.TrimSpace(string(cached))+"/cache/download") // the modules that building this test has downloaded
	out, err := list.CombinedOutput()
	require.NoError(t, err, string(out))

	var zips []string
	download := filepath.Join(cache, "cache", "download")
	require.NoError(t, filepath.WalkDir(download, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".zip") {
			rel, _ := filepath.Rel(download, path)
			zips = append(zips, rel)
		}
		return err
	}))
	require.Equal(t, []string{"github.com/go-zookeeper/zk/@v/v1.0.4.zip"}, zips)

	// A program that uses a module which the root requires is raised to the root's version of it, linked or not.
	required, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.NotContains(t, string(required), "go.opentelemetry.io/")
	page := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/prometheus/exporter-toolkit/web")
	page.Dir = root
	needed, err := page.Output()
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\t(github\.com/prometheus/\S+)`).FindAllStringSubmatch(string(required), -1) {
		require.Contains(t, strings.Fields(string(needed)), m[1], "the page needs no other")
	}
}

// The root's `./...` contains no module below the root: make goes through the list.
func TestMakeKnowsEveryModule(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	var checked []string // by make test, and by make prove
	for _, m := range regexp.MustCompile(`(?m)^(?:MODULES|SERVICES) = (.+)$`).FindAllStringSubmatch(string(makefile), -1) {
		checked = append(checked, strings.Fields(m[1])...)
	}
	require.ElementsMatch(t, append(nestedModules(t), "."), checked)
}

func nestedModules(t *testing.T) (modules []string) {
	files, err := exec.Command("git", "-C", "../..", "ls-files", "--cached", "--others", "--exclude-standard", "go.mod", "*/go.mod").Output()
	require.NoError(t, err)
	for file := range strings.FieldsSeq(string(files)) {
		if dir := filepath.Dir(file); dir != "." && !strings.HasPrefix(dir, ".ci/") && !strings.Contains(dir, "/testdata/") {
			modules = append(modules, dir)
		}
	}
	return modules
}

// A module that requires v0.0.0 of the root is useless to others: there is no such release, and a replacement is not inherited. Each requires
// the release that is tagged first, and the checkout takes its place here. The module in packaging/ requires none.
func TestModulesRequireAReleaseOfTheRoot(t *testing.T) {
	release, _, _ := strings.Cut(version(), "-")
	for _, dir := range nestedModules(t) {
		text, err := os.ReadFile(filepath.Join("../..", dir, "go.mod"))
		require.NoError(t, err)
		required := regexp.MustCompile(`(?m)^\s+(`+regexp.QuoteMeta(module)+`\S*) (\S+)$`).FindAllStringSubmatch(string(text), -1)
		require.Equal(t, dir != "packaging", len(required) > 0, dir)
		for _, one := range required {
			require.Equal(t, "v"+release, one[2], "%s of %s", one[1], dir)
			require.Contains(t, string(text), one[1]+" => ..", dir)
		}
	}
}

// A program that imports a module needs the Go version of its go directive. So the directive is no newer than its code and its requirements
// need. The code needs 1.25, for testing/synctest.
func TestTheGoDirectiveIsNoNewerThanNeeded(t *testing.T) {
	for _, dir := range []string{".", "recipes/prom", "recipes/otel"} {
		list := exec.Command("go", "list", "-m", "-f", "{{if .Main}}own {{end}}{{.GoVersion}}", "all")
		list.Dir = filepath.Join("../..", dir)
		out, err := list.Output()
		require.NoError(t, err, dir)
		own, needed := "", "go1.25.0"
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(line)
			if text, ok := strings.CutPrefix(line, "own "); ok {
				own = "go" + text
			} else if goversion.Compare("go"+line, needed) > 0 {
				needed = "go" + line
			}
		}
		require.Equal(t, needed, own, dir)
	}
}
