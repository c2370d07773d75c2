package static

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/config/internal/syntax"
)

// Declarations are what the files of a directory declare. They are read once, whatever the number of module blocks that call
// the directory, and never change then: what is found out about one of them in an instance is in an evaluation.
type Declarations struct {
	Files    *syntax.Sources
	Path     string // from the configuration's directory; "." for that itself
	Settings *Decl  // the locktree block

	// named are the declarations a reference ROOT.NAME finds.
	Named   map[string]map[string]*Decl
	Names   map[string][]string // the names by root, in order of declaration
	Nodes   []*Node             // at the top
	Outputs []*Decl
	All     []*Decl // in order of declaration
	Steps   []*Decl // in order of evaluation

	Variables map[string]*Variable
	index     map[nodeKey]*Node
	refs      map[*syntax.Attribute]*References // of the arguments that refer to anything
	// incomplete: blocks of unknown types were left out, so a name that is not
	// there may belong to an error that has been reported.
	Incomplete bool
	// calls are the module blocks here and in what they call; depth is how far they lead.
	calls, depth int
}

// nodeKey finds a node block among its siblings without walking them: a
// namespace of 100,000 locks would take their square otherwise.
type nodeKey struct {
	parent      *Node
	kind, label string
}

// roots of references that find a declaration by its second word.
var namedRoots = []string{"var", "local", "principal", "acl", "ensemble", "module"}

// reader reads the directories of one Load, each once.
type reader struct {
	*syntax.Report
	version string // of this program
	// open opens a directory by its path from the configuration's.
	open    func(dir string) (fs.FS, error)
	known   map[string]*Declarations // by path; nil when a directory holds nothing that could be evaluated
	refused bool                     // that there are too many modules has been reported
}

// Read makes the declarations of a configuration and of the modules that it calls: open opens the directory of one by its path
// from the configuration's, and version is that of this program. It returns nil when there is nothing that could be evaluated.
func Read(files *syntax.Sources, version string, open func(dir string) (fs.FS, error)) *Declarations {
	r := &reader{Report: files.Report, version: version, open: open, known: map[string]*Declarations{}}
	all := r.directory(files, ".", nil)
	if r.refused { // those below the refused calls may be called any number of times
		return nil
	}
	return all
}

// reading makes the declarations of one directory.
type reading struct {
	*Declarations
	*reader
	outer *reading // has the module block that made us read this; nil: it is the configuration itself
}

// directory reads the files and does everything that needs no values. It returns nil when there is nothing that could be evaluated.
//
// collect reads the modules that are called, down to the last one, so that resolve knows
// the outputs there are. complete reports only: collect has to cope with what is missing. order needs the
// references that resolve finds.
func (r *reader) directory(files *syntax.Sources, dir string, outer *reading) *Declarations {
	d := &reading{reader: r, outer: outer, Declarations: &Declarations{
		Files: files, Path: dir, Named: map[string]map[string]*Decl{}, Names: map[string][]string{},
		index: map[nodeKey]*Node{}, refs: map[*syntax.Attribute]*References{}, Variables: map[string]*Variable{},
	}}
	root := d.decodeFiles()
	if root == nil {
		return nil
	}
	d.collect(root)
	root.Complete(r.Report)
	d.declareVariables()
	d.resolve()
	d.Steps = d.order()
	return d.Declarations
}

// called are the declarations of a directory that a module block calls, nil when there are none to be evaluated.
func (r *reading) called(dir string, at hcl.Expression) *Declarations {
	depth := 0
	// By the path alone: a module may call the configuration once more under another name for its directory, such as
	// "../" and its name, which then calls itself by that name.
	for up := r; up != nil; up = up.outer {
		if up.Path == dir {
			r.Errorf(at.Range(), "Module calls itself", "The module in %s would call itself: %s. Remove this block, or call another module.", dir, r.chain(dir))
			return nil
		}
		depth++
	}
	child, known := r.known[dir]
	if !known && depth <= syntax.MaxCallDepth {
		fsys, err := r.open(dir)
		if err == nil {
			_, err = fs.Stat(fsys, ".")
		}
		if err != nil {
			r.Errorf(at.Range(), "Cannot read the module", "The directory %s cannot be read: %s.", dir, strings.TrimSuffix(syntax.PlainError(err), "."))
			return nil
		}
		child = r.directory(r.Files.In(fsys, dir), dir, r)
		r.known[dir] = child
	}
	r.calls++
	if child != nil {
		r.calls += child.calls
		r.depth = max(r.depth, child.depth+1)
		depth += child.depth
	}
	// Two bounds, because each alone is too weak: 16 levels of which each calls the next one twice are 65,536 calls, and
	// 2,000 calls could be as many levels.
	if depth > syntax.MaxCallDepth || r.calls > syntax.MaxCalls {
		if !r.refused {
			r.Errorf(at.Range(), "Too many modules", "Modules may call each other at most %d levels deep, by at most %d module blocks in all.", syntax.MaxCallDepth, syntax.MaxCalls)
		}
		r.refused = true
		return nil
	}
	return child
}

// chain is how this module came to be called, from the given directory on.
func (r *reading) chain(from string) string {
	text := r.Path
	for at := r; at.Path != from && at.outer != nil; at = at.outer {
		text = at.outer.Path + " calls " + text
		if at.outer.Path == from {
			break
		}
	}
	return text + " calls " + from
}

// language is that of the files in this directory.
func (r *reading) language() *syntax.BlockType {
	if r.outer != nil {
		return syntax.ChildLanguage
	}
	return syntax.Language
}

// decodeFiles reads every file into one block; nil when going on would only report consequences of the errors so far.
func (r *reading) decodeFiles() *syntax.Block {
	// Errors of the tables are reported only when there are no syntax errors: a block that did not parse is missing, and
	// references to it would be reported as unknown.
	decoding := &syntax.Report{Dir: r.Dir}
	root := &syntax.Block{Type: r.language()}
	before, empty := r.Errors(), true
	var version *hcl.Diagnostic
	for _, name := range r.Files.List() {
		body := r.Files.Parse(name)
		if body == nil {
			continue
		}
		empty = false
		if version == nil {
			version = r.checkVersion(body)
		}
		root.Blocks = append(root.Blocks, syntax.Decode(body, root.Type, decoding).Blocks...)
	}
	if version != nil && r.outer == nil {
		// What a newer version's language looks like to this program is beside the
		// point, so a wrong version is the only error. For a module it is one among others: the report holds those of all
		// modules.
		r.Diags = nil
	}
	if version != nil {
		r.Add(version)
	}
	if empty || version != nil || r.Errors() > before {
		return nil
	}
	r.Add(decoding.Diags...)
	r.Declarations.Incomplete = decoding.Incomplete
	return root
}

// checkVersion looks for required_version in a body and nothing else, so that it
// works on a file whose language this program does not know. The diagnostics of the
// two bodies are dropped for that reason: when the version fits, decodeBody finds the same
// errors.
func (r *reading) checkVersion(body hcl.Body) *hcl.Diagnostic {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "locktree"}}})
	for _, b := range content.Blocks {
		inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "required_version"}}})
		if a := inner.Attributes["required_version"]; a != nil {
			if d := r.checkConstraint(a); d != nil {
				return d
			}
		}
	}
	return nil
}

func (r *reading) checkConstraint(a *hcl.Attribute) *hcl.Diagnostic {
	text, ok := constantText(a.Expr)
	if !ok {
		return syntax.ErrorAt(a.Expr.Range(), "Invalid version constraint", `required_version must be a literal string, such as ">= 1.2.0", because it is read before anything else.`)
	}
	want, err := version.NewConstraint(text)
	if err != nil {
		return syntax.ErrorAt(a.Expr.Range(), "Invalid version constraint", fmt.Sprintf(`%q is not a version constraint: write it as ">= 1.2.0" or "~> 1.2".`, text))
	}
	have, err := version.NewVersion(r.version)
	if err != nil {
		return nil // a build without a version
	}
	// A pre-release of 1.2.0 speaks the language of 1.2.0.
	if want.Check(have.Core()) {
		return nil
	}
	return syntax.ErrorAt(a.Expr.Range(), "Unsupported locktree version", fmt.Sprintf(
		"This configuration requires locktree %s; this is %s. Install a version that fits, or change required_version.", want, have))
}
