package drivers

import (
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// Modules that several drivers are clients of.
const (
	goZK = "github.com/go-zookeeper/zk"
	pgx5 = "github.com/jackc/pgx/v5"
)

// Library is the client's name and version; empty where that cannot be found out.
func (s System) Library() string {
	switch {
	case s.library == "":
		return "this repository"
	case s.java != "":
		all, _ := filepath.Glob(jars + s.library + "-[0-9]*.jar")
		for _, name := range all {
			return strings.TrimSuffix(filepath.Base(name), ".jar")
		}
		return s.library
	case s.python != "":
		out, _ := exec.Command(python, "-c", "import kazoo; print('kazoo', kazoo.__version__)").Output()
		return strings.TrimSpace(string(out))
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if m.Path == s.library {
				return strings.TrimPrefix(m.Path, "github.com/") + " " + m.Version
			}
		}
	}
	return ""
}
