// Command packaging builds a release: for each platform a static binary in an archive and its bill of materials, packages for
// Debian and for systems with rpm, an OCI image, and their checksums. It writes the same bytes for the same commit, version and
// Go release, in any directory, time zone and year: every time stamp is SOURCE_DATE_EPOCH, and every file belongs to root.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// target is a platform that a release is for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "_" + t.arch }

func allTargets() (all []target) {
	for _, system := range []string{"linux", "darwin", "windows", "freebsd"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, target{system, arch})
		}
	}
	return all
}

var hostTarget = target{runtime.GOOS, runtime.GOARCH}

// release is what is built, and where.
type release struct {
	root    string // of the repository
	out     string // where the release goes, an absolute path
	work    string // for the parts, an absolute path
	version string // without the v
	commit  string
	time    time.Time
}

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

func main() {
	version := flag.String("version", "", "the tag of the release, as in v0.1.0")
	commit := flag.String("commit", "", "the commit that is built")
	out := flag.String("out", "", "the directory to write; it must be empty or not exist")
	native := flag.Bool("native", false, "build for this platform only")
	flag.Parse()
	if err := run(*version, *commit, *out, *native); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(version, commit, out string, native bool) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("-version=%s is not a version such as v0.1.0 or v0.2.0-rc.1", version)
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH must be the time of the commit in seconds: every file of the release gets it")
	}
	if out == "" || commit == "" {
		return errors.New("-out and -commit are missing")
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if files, _ := os.ReadDir(out); len(files) > 0 {
		return fmt.Errorf("%s is not empty: what it holds would be among the checksums. Remove it first", out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "locktree-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{root: "..", out: out, work: work, version: strings.TrimPrefix(version, "v"), commit: commit, time: time.Unix(seconds, 0).UTC()}
	targets := allTargets()
	if native {
		targets = []target{hostTarget}
	}
	return r.build(targets)
}

// build makes the release. It begins with the documents, which locktree itself writes.
func (r *release) build(targets []target) error {
	if err := r.documents(); err != nil {
		return err
	}
	var image image
	for _, t := range targets {
		fmt.Println("==", t)
		if err := r.binary(t); err != nil {
			return err
		}
		if err := r.archive(t); err != nil {
			return err
		}
		if err := r.materials(t); err != nil {
			return err
		}
		if t.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.systemPackage(t, format); err != nil {
				return err
			}
		}
		if err := image.add(r, t); err != nil {
			return err
		}
	}
	if err := image.write(r); err != nil {
		return err
	}
	if err := r.checksums(); err != nil {
		return err
	}
	return r.report(targets)
}

// name returns the path of a file of the release.
func (r *release) name(t target, ending string) string {
	return filepath.Join(r.out, "locktree_"+r.version+"_"+t.String()+ending)
}
