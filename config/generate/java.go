package generate

import (
	_ "embed"
	"strings"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes/kind"
)

//go:embed locks.java.tmpl
var locksJava string

// keyNamesJava is a class of its own.
//
//go:embed KeyNames.java
var keyNamesJava string

// java knows the classes of Curator whose contenders have Curator's names.
var java = language{
	template: locksJava,
	quote:    func(text string) string { return quoted(text, true) },
	text: func(text string) string { // ends no comment and begins no escape
		return strings.NewReplacer("*/", "* /", `\`, `\\`, "&", "&amp;", "<", "&lt;", "@", "&#64;").Replace(printable(text))
	},
	key: "segment(%s)", listed: "listed(%s)",
	name: func(words []string) string {
		for i, w := range words[min(1, len(words)):] {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
		return asciiName(strings.Join(words, ""))
	},
	clients: map[*kind.Kind]map[string][]client{
		kind.Mutex:     {kind.WireCurator: {{from: "locks", Name: "InterProcessMutex"}}},
		kind.RWLock:    {kind.WireCurator: {{from: "locks", Name: "InterProcessReadWriteLock"}}},
		kind.Semaphore: {kind.WireCurator: {{from: "locks", Name: "InterProcessSemaphoreV2", Param: "int permits", Arg: "permits"}}},
		kind.Election:  {kind.WireCurator: {{from: "leader", Name: "LeaderLatch", Param: "String id", Arg: "id"}}},
	},
}

// Java returns the source of a class in a package, "" for none. KeyNames becomes a class within it.
func Java(code *config.Code, on *config.CodeEnsemble, pkg, class string) []byte {
	imports, body, _ := strings.Cut(keyNamesJava, "\n/**")
	body = strings.ReplaceAll("\n/**"+strings.Replace(body, "\nfinal class", "\nprivate static final class", 1), "\n", "\n    ")
	body = strings.TrimSuffix(strings.ReplaceAll(body, "\n    \n", "\n\n"), "    ")
	return java.write(code, on, map[string]any{"Package": pkg, "Class": class, "KeyImports": imports, "KeyNames": body})
}

// asciiName is an identifier without letters that a compiler may not know; "" if nothing is left of it.
func asciiName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f }) {
		return ""
	}
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
