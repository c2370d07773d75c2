// Package drivers has the lock services, each used as its documentation recommends.
package drivers

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
)

// System is a lock service with a driver.
type System struct {
	Name    string
	Server  string      // the server that it needs, as package server names it
	Driver  lock.Driver `json:"-"` // the driver, if it is in Go
	Java    string      // the class of the driver, if it is in Java
	Python  string      // the module of the driver, if it is in Python
	Library string      // a Go module, or a Debian package; empty is this repository
	Client  bool        // a library of locks on ZooKeeper
	Memory  bool        // the lock is in the server's memory, whatever its disk does
	Lasting bool        // the lock has no time to live: only its holder ends it, or the end of a connection
}

// Ours is the system that the others are compared with.
const Ours = "locktree"

// TTL is how long a lock may outlive its holder, in experiments that do not measure that.
const TTL = 30 * time.Second

// All systems.
var All = []System{
	{Name: Ours, Server: "zookeeper", Client: true, Driver: locktree},
	{Name: "go-zookeeper", Server: "zookeeper", Client: true, Driver: goZooKeeper, Library: "github.com/go-zookeeper/zk"},
	{Name: "curator", Server: "zookeeper", Client: true, Java: "Curator", Library: "libcurator-recipes-java"},
	{Name: "kazoo", Server: "zookeeper", Client: true, Python: "driver_kazoo", Library: "python3-kazoo"},
	{Name: "all watch the parent", Server: "zookeeper", Driver: Herd(nil), Library: "github.com/go-zookeeper/zk"},
	{Name: "redislock", Server: "redis", Driver: redisLock, Library: "github.com/bsm/redislock"},
	{Name: "redsync", Server: "three-redis", Driver: redlock, Library: "github.com/go-redsync/redsync/v4"},
	{Name: "etcd", Server: "etcd", Driver: etcd, Library: "go.etcd.io/etcd/client/v3"},
	{Name: "postgres advisory lock", Server: "postgres", Memory: true, Lasting: true, Driver: advisory(""), Library: "github.com/jackc/pgx/v5"},
	{Name: "postgres row", Server: "postgres", Lasting: true, Driver: row, Library: "github.com/jackc/pgx/v5"},
	{Name: "mariadb GET_LOCK", Server: "mariadb", Memory: true, Lasting: true, Driver: mariadb, Library: "github.com/go-sql-driver/mysql"},
}

// Find returns a system by its name.
func Find(name string) (System, error) {
	all := append(All, Pooled)
	if i := slices.IndexFunc(all, func(s System) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	return System{}, fmt.Errorf("no system is called %q: RESULTS.md has their names", name)
}

//go:embed java python
var sources embed.FS

var preparing sync.Mutex

// Command returns the command line of the system's process. self is this program, which serves the drivers in Go. Command puts
// the programs in other languages into dir, compiled once. ttl is how long a lock may outlive its holder, if a client of the
// system can choose that. An error says what is missing.
func (s System) Command(self, dir string, ttl time.Duration) ([]string, error) {
	if s.Driver != nil {
		return []string{self, "be", s.Name, ttl.String()}, nil
	}
	preparing.Lock()
	defer preparing.Unlock()
	if _, err := os.Stat(filepath.Join(dir, "java")); err != nil {
		if err := os.CopyFS(dir, sources); err != nil {
			return nil, err
		}
	}
	if s.Python != "" { // by the interpreter that Debian's kazoo belongs to
		return []string{"/usr/bin/python3", "-B", filepath.Join(dir, "python/harness.py"), s.Python, strconv.FormatFloat(ttl.Seconds(), 'f', -1, 64)}, nil
	}
	classes := filepath.Join(dir, "classes")
	path := classes
	// Guava, the logging facade and ZooKeeper's records are what Curator's classes refer to.
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-simple"} {
		path += ":/usr/share/java/" + jar + ".jar"
	}
	if _, err := os.Stat(classes); err != nil {
		files, _ := filepath.Glob(filepath.Join(dir, "java/*.java")) // the pattern is well formed
		out, err := exec.Command("javac", append([]string{"-proc:none", "-cp", path, "-d", classes}, files...)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("needs Debian's default-jdk-headless, libcurator-recipes-java and zookeeper: javac: %w\n%s", err, out)
		}
	}
	return []string{"java", "-Xmx1g", "-Xss256k", "-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-Dttl=" + strconv.FormatInt(ttl.Milliseconds(), 10), "-cp", path, "Harness", s.Java}, nil
}

// Version is the name and the version of the library; empty if they are not known.
func (s System) Version() string {
	switch {
	case s.Library == "":
		return "this repository"
	case s.Driver == nil: // a Debian package
		version, _ := exec.Command("dpkg-query", "-W", "-f", "${Package} ${Version}", s.Library).Output()
		return string(version)
	}
	build, _ := debug.ReadBuildInfo()
	for _, m := range build.Deps {
		if m.Path == s.Library {
			return strings.TrimPrefix(m.Path, "github.com/") + " " + m.Version
		}
	}
	return ""
}
