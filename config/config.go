package config

import (
	"io"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// Options are the inputs of [Load] besides the directory.
type Options struct {
	// Inputs are the values of the command line in its order: later ones win,
	// files and single values alike, as in Terraform.
	Inputs []Input
	// Environ is the environment as [os.Environ] gives it: LOCKTREE_VAR_name sets
	// a variable, and env("NAME") reads it. The process' own environment is not
	// consulted, so nil means an empty one.
	Environ []string
	// Version is this program's version, checked against required_version. An
	// empty or unparsable one ("dev") satisfies every constraint.
	Version string
}

// Input gives variables their values: exactly one of Var and File is set.
type Input struct {
	Var string // NAME=VALUE
	// File is a file of variable values. A relative path is relative to the
	// process' working directory, as a shell completes it.
	File string
	// Reader, when set, is read to its end instead, and File is only what messages
	// call it: standard input is no file to open.
	Reader io.Reader
}

// Config is an evaluated configuration.
type Config struct {
	// Dir is the directory that was loaded.
	Dir string
	// Stack is the ownership id written into every node.
	Stack string
	// Ensembles are in the order of their names. Each has a tree, possibly an empty one.
	Ensembles []*Ensemble
	// Outputs are sorted by name.
	Outputs []plan.Output
	// Checks are the results of check blocks, sorted by address. Each failed
	// assertion is also a warning among the diagnostics.
	Checks []plan.Check
	// Sources are the files by the name diagnostics use, for snippets. Present
	// even when Load failed, see [Load].
	Sources map[string]*hcl.File
}

// Ensemble is one ZooKeeper ensemble and what is declared on it.
type Ensemble struct {
	Name    string
	Servers []string // "host:port", or "dns-srv://name"
	// AuthName is the name that clients present with ZooKeeper's authentication scheme "ensemble"; "" when not declared.
	AuthName string
	// Root is the absolute path every declared node is below; "/" by default.
	Root string
	// SessionTimeout and ConnectTimeout are zero when not declared.
	SessionTimeout, ConnectTimeout time.Duration
	TLS                            *TLS           // nil: plain TCP
	Auth                           []recipes.Auth // of the scheme digest: "user:password"
	Login                          *Login         // by SASL; nil: not at all
	// Tree is all that is declared on the ensemble: the nodes, with the paths an apply will use, and in its Intent what the
	// configuration says besides them.
	Tree *plan.Tree
	// DeclRange is the place of the block.
	DeclRange hcl.Range

	passwordFiles []string // the files that Auth was read from
}

// TLS are the files of an encrypted connection. Relative paths in the
// configuration are relative to its directory; here they are ready to open.
type TLS struct {
	CAFile            string // "": the system's certificate authorities
	CertFile, KeyFile string // both or neither
	ServerName        string // "": the host name of each server
}
