package stack

import (
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// IsAddress reports whether an argument was meant as the address of a lock or a namespace.
func IsAddress(arg string) bool { return kind.Lookup(plan.Addr(arg).Type()) != nil }

// NodeAt finds the declaration at an address; nil if there is none.
func NodeAt(cfg *config.Config, addr plan.Addr) (*config.Ensemble, *plan.Node) {
	for _, e := range cfg.Ensembles {
		for _, n := range e.Tree.Nodes {
			if n.Addr == addr {
				return e, n
			}
		}
	}
	return nil, nil
}

// Declared returns the ensemble and the path of an address.
func Declared(cfg *config.Config, addr string) (e *config.Ensemble, path string, err error) {
	if e, n := NodeAt(cfg, plan.Addr(addr)); n != nil {
		return e, n.Path, nil
	}
	return nil, "", view.Failf("Not declared", "The configuration declares nothing at the address %q.%s \"locktree status\" shows what is declared. A path begins with a slash.",
		addr, explain.NearestAddr(addr, Addresses(cfg)))
}

// Addresses are those of everything that is declared.
func Addresses(cfg *config.Config) (out []plan.Addr) {
	for _, e := range cfg.Ensembles {
		for _, n := range e.Tree.Nodes {
			out = append(out, n.Addr)
		}
	}
	return out
}

// Ensemble is the one of this name, or the only one.
func Ensemble(cfg *config.Config, name string) (*config.Ensemble, error) {
	var names []string
	for _, e := range cfg.Ensembles {
		if e.Name == name || name == "" && len(cfg.Ensembles) == 1 {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, view.Failf("Which ensemble", "-ensemble=%s: the ensembles are %s. Name one of them.", name, strings.Join(names, ", "))
}

// Paths are the paths of the locks of a tree.
func Paths(tree *plan.Tree) (paths []string) {
	for _, n := range tree.Nodes {
		if !n.Kind().Container {
			paths = append(paths, n.Path)
		}
	}
	return paths
}
