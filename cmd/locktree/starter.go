package main

import (
	"cmp"
	_ "embed"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

//go:embed starter.locktree.hcl
var starter string

// starterName is the file init writes.
const starterName = "main.locktree.hcl"

// scaffold writes the starter configuration where there is none at all.
func (a *app) scaffold() (wrote bool, err error) {
	dir := a.path(".")
	for _, pattern := range []string{"*.locktree.hcl", "*.locktree.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			return false, err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	text := strings.NewReplacer("STACK", stackName(filepath.Base(abs)), "SERVERS", a.starterServers()).Replace(starter)
	err = writeNew(filepath.Join(dir, starterName), 0o644, []byte(text))
	if errors.Is(err, fs.ErrExist) {
		return false, nil // another program created it first
	}
	if err != nil {
		return false, view.Failf("Cannot write "+starterName, "%v. Choose a directory you can write to, with -chdir=DIR.", err)
	}
	return true, nil
}

// starterServers are those of the environment, or the address of dev: a configuration that
// names its servers can be reviewed.
func (a *app) starterServers() string {
	servers := []string{devAddress}
	if list := a.env.get("ZOOKEEPER_SERVERS"); list != "" {
		servers = strings.Split(list, ",")
	}
	quoted := make([]string, len(servers))
	for i, s := range servers {
		quoted[i] = strconv.Quote(strings.TrimSpace(s))
	}
	return strings.Join(quoted, ", ")
}

// stackName makes a stack name from that of a directory: stacks of different directories
// must not share nodes.
func stackName(dir string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(dir)), "-")
	return cmp.Or(name, "example")
}
