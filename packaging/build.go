package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// program is where the binary of a platform is.
func (r *release) program(t target) string {
	name := "locktree"
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, t.String(), name)
}

// binary builds for a platform. The release and the commit are written into it: Go's own stamp differs between a clone and an
// archive of the same commit.
func (r *release) binary(t target) error {
	program := r.program(t)
	if _, err := os.Stat(program); err == nil {
		return nil // documents has already built the program of this platform
	}
	flags := "-s -w -X main.release=" + r.version + " -X main.commit=" + r.commit
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", program, "./cmd/locktree")
	c.Dir = r.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0")
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("building for %s: %w", t, err)
	}
	return r.stamp(program)
}

// stamp gives a file the time of the release.
func (r *release) stamp(file string) error { return os.Chtimes(file, r.time, r.time) }

// documents are the man pages, compressed as Debian wants them, and the completions: what the program says of itself.
func (r *release) documents() error {
	if err := r.binary(hostTarget); err != nil {
		return err
	}
	man := filepath.Join(r.work, "man")
	if out, err := exec.Command(r.program(hostTarget), "help", "-man="+man).CombinedOutput(); err != nil {
		return fmt.Errorf("man pages: %w: %s", err, out)
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := r.compress(filepath.Join(man, page.Name())); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := exec.Command(r.program(hostTarget), "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		if err := r.write(filepath.Join(r.work, "completions", "locktree."+shell), script); err != nil {
			return err
		}
	}
	return nil
}

// compress replaces a file by its gzip.
func (r *release) compress(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = z.Write(text) // into memory: it cannot fail
	_ = z.Close()
	return r.write(file+".gz", out.Bytes())
}

func (r *release) write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o644); err != nil { //nolint:gosec // it is to be read by all
		return err
	}
	return r.stamp(file)
}

// systemPackage makes a .deb or .rpm of the files in nfpm.yaml, with nfpm.
func (r *release) systemPackage(t target, format string) error {
	c := exec.Command("go", "tool", "-modfile=.ci/tools/go.mod", "nfpm", "package", "-f", "packaging/nfpm.yaml", "-p", format, "-t", r.out)
	c.Dir = r.root
	c.Env = append(os.Environ(), "VERSION="+r.version, "ARCH="+t.arch, "BUILT="+filepath.Join(r.work, t.String()), "SHARE="+r.work)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("nfpm, %s for %s: %w: %s", format, t, err, out)
	}
	return nil
}

// report prints how large the binaries are, and how long one of them takes to start: the best of some runs of "version".
func (r *release) report(targets []target) error {
	for _, t := range targets {
		info, err := os.Stat(r.program(t))
		if err != nil {
			return err
		}
		fmt.Printf("%-14s %5.1f MB\n", t, float64(info.Size())/1e6)
	}
	best := time.Hour
	for range 10 {
		begin := time.Now()
		if err := exec.Command(r.program(hostTarget), "version").Run(); err != nil {
			return err
		}
		best = min(best, time.Since(begin))
	}
	fmt.Printf("starts and ends in %.0f ms\n", best.Seconds()*1e3)
	return nil
}
