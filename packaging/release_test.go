package main_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

var kept string // the directory that all tests share

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "locktree-packaging-")
	if err != nil {
		panic(err)
	}
	kept = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program is this command, built once; released is a release for this platform.
var (
	program = sync.OnceValues(func() (string, error) {
		file := filepath.Join(kept, "packaging")
		out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput()
		return file, said(err, out)
	})
	released = sync.OnceValues(func() (string, error) {
		dir := filepath.Join(kept, "release")
		return dir, build(".", dir, "022")
	})
)

func said(err error, out []byte) error {
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// build makes a release of the sources around a directory, with a umask and additional environment variables.
func build(from, to, umask string, env ...string) error {
	file, err := program()
	if err != nil {
		return err
	}
	c := exec.Command("sh", "-c", "umask "+umask+`; exec "$@"`, "sh", file, "-version=v0.1.0", "-commit=0123456789abcdef", "-native", "-out="+to)
	c.Dir = from
	c.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000"), env...)
	out, err := c.CombinedOutput()
	return said(err, out)
}

// A release is a function of its sources. It has the same bytes if it is built from a newer copy elsewhere, in another time zone and with
// another user's umask. Compiled packages may come from the cache; every step of this program runs twice.
func TestTwoBuildsAreEqual(t *testing.T) {
	one, err := released()
	require.NoError(t, err)
	elsewhere := t.TempDir()
	out, err := exec.Command("sh", "-c", `cd .. && git ls-files -z --cached --others --exclude-standard | tar --null -T - --ignore-failed-read -c | tar -x -m -C "$1"`, "sh", elsewhere).CombinedOutput()
	require.NoError(t, err, string(out))
	other := filepath.Join(elsewhere, "out")
	require.NoError(t, build(filepath.Join(elsewhere, "packaging"), other, "077", "TZ=Pacific/Apia", "LANG=tr_TR.UTF-8", "HOSTNAME=elsewhere"))
	require.Equal(t, contents(t, one), contents(t, other))
	check := exec.Command("sha256sum", "-c", "--strict", "SHA256SUMS")
	check.Dir = one
	out, err = check.CombinedOutput()
	require.NoError(t, err, string(out))
}

// contents are the checksums of the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 6, "archive, bill of materials, .deb, .rpm, image, checksums")
	sums := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		sums[f.Name()] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return sums
}

// The bill of materials names the modules that the binary says it links, and none that only tests need.
func TestTheBillOfMaterialsIsThatOfTheBinary(t *testing.T) {
	dir, err := released()
	require.NoError(t, err)
	files, err := filepath.Glob(dir + "/*.cdx.json")
	require.NoError(t, err)
	require.Len(t, files, 1)
	file, err := os.Open(files[0])
	require.NoError(t, err)
	defer file.Close()
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, "v0.1.0", bom.Metadata.Component.Version)
	var named []string
	for _, part := range *bom.Components {
		named = append(named, part.Name)
	}
	require.Subset(t, named, []string{"std", "github.com/go-zookeeper/zk", "github.com/hashicorp/hcl/v2"})
	require.NotContains(t, named, "github.com/stretchr/testify")
}

// installed.sh installs, uses, upgrades and removes the release as its users would.
func TestTheReleaseIsInstalled(t *testing.T) {
	dir, err := released()
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "./installed.sh", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	require.True(t, strings.HasSuffix(string(out), "== all is as it should be\n"), string(out))
}

// A wrong argument is an error, and nothing is written.
func TestAWrongArgumentOfAReleaseWritesNothing(t *testing.T) {
	file, err := program()
	require.NoError(t, err)
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "old.deb"), nil, 0o600))
	for _, c := range []struct{ epoch, args, why string }{
		{"1", "-version=0.1.0 -commit=x -out=" + full, "not a version such as v0.1.0"},
		{"", "-version=v0.1.0 -commit=x -out=" + full, "SOURCE_DATE_EPOCH must be"},
		{"1", "-version=v0.1.0 -out=" + full, "are missing"},
		{"1", "-version=v0.1.0 -commit=x -out=" + full, "is not empty"},
	} {
		run := exec.Command(file, strings.Fields(c.args)...)
		run.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+c.epoch)
		out, err := run.CombinedOutput()
		require.Error(t, err, c.why)
		require.Contains(t, string(out), c.why)
	}
}
