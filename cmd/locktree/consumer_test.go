package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that imports the library downloads one module more and no other, and no version of a module that it uses itself
// is raised: the adapters to Prometheus and OpenTelemetry are modules of their own.
func TestAProgramThatImportsRecipesDownloadsOneModule(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	cached, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	dir, cache := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("go.mod", "module example.com/consumer\n\ngo 1.26.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	write("main.go", "package main\n\nimport _ \""+module+"/recipes\"\n\nfunc main() {}\n")
	build := exec.Command("go", "build", "-o", os.DevNull, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod -modcacherw", "GOWORK=off", "GOMODCACHE="+cache, "GOSUMDB=off",
		"GOPROXY=file://"+strings.TrimSpace(string(cached))+"/cache/download") // what building this has downloaded already
	out, err := build.CombinedOutput()
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

	// What the root requires, a program that uses it too is raised to, linked or not.
	required, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for _, adapter := range []string{"github.com/prometheus/", "go.opentelemetry.io/"} {
		require.NotContains(t, string(required), adapter)
	}
}

// A module below the root is in no `./...` of the root's: make goes through the list.
func TestMakeKnowsEveryModule(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	var checked []string // by make test, and by make prove
	for _, m := range regexp.MustCompile(`(?m)^(?:MODULES|SERVICES) = (.+)$`).FindAllStringSubmatch(string(makefile), -1) {
		checked = append(checked, strings.Fields(m[1])...)
	}
	files, err := exec.Command("git", "-C", "../..", "ls-files", "--cached", "--others", "--exclude-standard", "go.mod", "*/go.mod").Output()
	require.NoError(t, err)
	var modules []string
	for file := range strings.FieldsSeq(string(files)) {
		if dir := filepath.Dir(file); !strings.HasPrefix(dir, ".ci/") && !strings.Contains(dir, "/testdata/") {
			modules = append(modules, dir)
		}
	}
	require.ElementsMatch(t, modules, checked)
}
