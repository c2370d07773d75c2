package generate

import (
	_ "embed"
	"strings"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes/kind"
)

//go:embed locks.py.tmpl
var locksPython string

// curatorLocks is a module of its own, with the classes that give kazoo's recipes the names of Curator's.
//
//go:embed curator_locks.py
var curatorLocks string

// keyNamesPython is another one.
//
//go:embed key_names.py
var keyNamesPython string

// python knows kazoo's own classes, and those in curatorLocks.
var python = language{
	template: locksPython,
	quote:    func(text string) string { return quoted(text, false) },
	text: func(text string) string { // in a string of three quotes
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(printable(text))
	},
	key: "_segment(%s)", listed: "_listed(%s)",
	name: func(words []string) string { return asciiName(strings.ToLower(strings.Join(words, "_"))) },
	clients: map[*kind.Kind]map[string][]client{
		kind.Mutex: {kind.WireKazoo: {{Name: "Lock"}}, kind.WireCurator: {{Name: "CuratorLock"}}},
		kind.RWLock: {
			kind.WireKazoo:   {{Name: "ReadLock", Suffix: "_read"}, {Name: "WriteLock", Suffix: "_write"}},
			kind.WireCurator: {{Name: "CuratorReadLock", Suffix: "_read"}, {Name: "CuratorWriteLock", Suffix: "_write"}},
		},
		kind.Election: {kind.WireKazoo: {{Name: "Election"}}, kind.WireCurator: {{Name: "CuratorElection"}}},
	},
}

// Python returns the source of a module. Of the two others it has neither docstrings nor imports, for it has its own.
func Python(code *config.Code, on *config.CodeEnsemble) []byte {
	_, locks, _ := strings.Cut(curatorLocks, "\n\"\"\"\n")
	_, names, _ := strings.Cut(keyNamesPython, "import zlib\n")
	return python.write(code, on, map[string]any{"CuratorLocks": locks, "KeyNames": names})
}
