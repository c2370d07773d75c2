package drivers

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	Server  string // what it needs to run on, as package server names it
	Client  bool   // a library of locks on ZooKeeper
	Memory  bool   // the lock is in the server's memory, whatever its disk does
	Lasting bool   // no time to live ends the lock: its holder does, or the end of a connection

	driver  lock.Driver // in Go
	java    string      // or a class
	python  string      // or a module
	library string      // a Go module or a jar of the client; empty is this repository
}

// Ours is the system that the others are compared with.
const Ours = "locktree"

// All systems.
var All = []System{
	{Name: Ours, Server: "zookeeper", Client: true, driver: locktree},
	{Name: "go-zookeeper", Server: "zookeeper", Client: true, driver: goZooKeeper, library: goZK},
	{Name: "curator", Server: "zookeeper", Client: true, java: "Curator", library: "curator-recipes"},
	{Name: "kazoo", Server: "zookeeper", Client: true, python: "driver_kazoo", library: "kazoo"},
	{Name: "all watch the parent", Server: "zookeeper", driver: Herd(opened()), library: goZK},
	{Name: "redislock", Server: "redis", driver: redisLock, library: "github.com/bsm/redislock"},
	{Name: "redsync", Server: "three-redis", driver: redlock, library: "github.com/go-redsync/redsync/v4"},
	{Name: "etcd", Server: "etcd", driver: etcd, library: "go.etcd.io/etcd/client/v3"},
	{Name: "postgres advisory lock", Server: "postgres", Memory: true, Lasting: true, driver: advisory(""), library: pgx5},
	{Name: "postgres row", Server: "postgres", Lasting: true, driver: row(), library: pgx5},
	{Name: "mariadb GET_LOCK", Server: "mariadb", Memory: true, Lasting: true, driver: mariadb, library: "github.com/go-sql-driver/mysql"},
}

// Controls exclude nobody, in each of the languages: what a load must notice.
var Controls = []System{
	{Name: "nothing", Server: "zookeeper", driver: nothing},
	{Name: "nothing in Java", Server: "zookeeper", java: "Nothing"},
	{Name: "nothing in Python", Server: "zookeeper", python: "driver_nothing"},
}

// Find returns a system by its name.
func Find(name string) (System, error) {
	var names []string
	for _, s := range slices.Concat(All, Controls, Pooled) {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return System{}, fmt.Errorf("no system is called %q; there are %s", name, strings.Join(names, ", "))
}

// Driver is the system's, where it is written in Go, or nil.
func (s System) Driver() lock.Driver { return s.driver }

// Compiles says whether its process translates itself while it runs.
func (s System) Compiles() bool { return s.java != "" }

//go:embed java python
var sources embed.FS

const (
	jars   = "/usr/share/java/"
	python = "/usr/bin/python3" // the interpreter that Debian's kazoo belongs to
)

// Command is what runs the system's process. self is this program, which serves the drivers in Go; dir is where programs
// in other languages are laid out, and compiled once; ttl is how long a lock may outlive who holds it, where that can be said.
// An error says what is missing.
func (s System) Command(self, dir string, ttl time.Duration) ([]string, error) {
	if s.driver != nil {
		return []string{self, "be", s.Name, ttl.String()}, nil
	}
	preparing.Lock()
	defer preparing.Unlock()
	if _, err := os.Stat(filepath.Join(dir, "java")); err != nil {
		if err := os.CopyFS(dir, sources); err != nil {
			return nil, err
		}
	}
	if s.python != "" {
		if out, err := exec.Command(python, "-c", "import kazoo").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("needs Debian's python3-kazoo: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return []string{python, "-B", filepath.Join(dir, "python/harness.py"), s.python, strconv.FormatFloat(ttl.Seconds(), 'f', -1, 64)}, nil
	}
	path, err := compiled(dir)
	return []string{"java", "-Xmx1g", "-Xss256k", "-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-Dttl=" + strconv.FormatInt(ttl.Milliseconds(), 10), "-cp", path, "Harness", s.java}, err
}

var preparing sync.Mutex

// compiled returns the class path of the drivers in Java.
func compiled(dir string) (string, error) {
	classes := filepath.Join(dir, "classes")
	path := classes
	// Guava, the logging facade and ZooKeeper's records are what Curator's classes refer to.
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-simple"} {
		if _, err := os.Stat(jars + jar + ".jar"); err != nil {
			return "", fmt.Errorf("needs Debian's libcurator-recipes-java and zookeeper: %w", err)
		}
		path += ":" + jars + jar + ".jar"
	}
	if _, err := os.Stat(classes); err == nil {
		return path, nil
	}
	files, _ := filepath.Glob(filepath.Join(dir, "java/*.java")) // the pattern is well formed
	out, err := exec.Command("javac", append([]string{"-proc:none", "-cp", path, "-d", classes}, files...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("needs Debian's default-jdk-headless: javac: %w\n%s", err, out)
	}
	return path, nil
}
