package main

import (
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/locktree/locktree/cmd/locktree/internal/vet"
)

// isVetUnit reports whether "go vet -vettool" runs this program: it asks for its version and its flags, and then gives it one
// package after the other.
func isVetUnit(args []string) bool {
	if len(args) == 0 {
		return false
	}
	for _, flag := range args[:len(args)-1] {
		if !strings.HasPrefix(flag, "-") {
			return false
		}
	}
	last := args[len(args)-1]
	return last == "-V=full" || last == "-flags" || strings.HasSuffix(last, ".cfg") && !strings.HasPrefix(last, "-")
}

// vetUnit looks at one package, and ends the program.
func vetUnit() {
	var dirs []string
	flag.Func("config", "compare paths with the configuration in this directory, an absolute path; may be repeated", func(dir string) error {
		dirs = append(dirs, dir)
		vet.Declare(sync.OnceValues(func() (vet.Declared, error) { return declaredIn(dirs) }))
		return nil
	})
	flag.BoolFunc("advice", "give advice, too", func(string) error { vet.Advise(true); return nil })
	if last := len(os.Args) - 1; strings.HasSuffix(os.Args[last], ".cfg") {
		os.Args[last] = unitFile(os.Args[last], strings.Contains(strings.Join(os.Args, " "), "-config="))
	}
	unitchecker.Main(vet.Analyzers...)
}

// unitFile is the description of the package that is looked at. About a package that others only import there is nothing to
// learn: the analyzers export no facts, and it is not even parsed. The go command remembers what was found until the package
// changes; as it does not know when a configuration changes, it is left without anything to remember.
func unitFile(name string, configured bool) string {
	text, err := os.ReadFile(name)
	unit := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &unit)
	}
	output, _ := unit["VetxOutput"].(string)
	switch {
	case err != nil:
		log.Fatal(err)
	case unit["VetxOnly"] == true:
		if err := os.WriteFile(output, nil, 0o666); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	case !configured:
		return name
	}
	unit["VetxOutput"] = os.DevNull
	if text, err = json.Marshal(unit); err != nil {
		log.Fatal(err)
	}
	name = filepath.Join(filepath.Dir(name), "uncached.cfg")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		log.Fatal(err)
	}
	return name
}
