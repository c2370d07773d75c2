// Package takeover takes over locks that other programs created: one znode as a declared lock, or a whole subtree as a generated
// configuration.
//
// It relies on package survey to recognise locks by the names of their contenders, and on package change to plan, ask and apply.
// [Tree] uses a connection that cannot write. Only [One] changes nodes, after an approval.
//
//	err := takeover.Tree(ctx, screen, loader, takeover.Options{From: "/locks", File: "locks.locktree.hcl"})
package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/adopt"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/inspect/survey"
	"github.com/locktree/locktree/recipes/kind"
)

// Options say what to take over, and where its configuration goes.
type Options struct {
	Inputs   []config.Input
	From     string   // the subtree
	File     string   // to write; "" is none
	Ensemble string   // "" is the only one
	Kinds    []string // [PATH=]TYPE to declare for nodes that no program uses
}

// The function One is like an import block on the command line: a plan of one address, which is shown, approved and applied.
func One(ctx context.Context, h change.Host, l *stack.Loader, inputs []config.Input, o change.Options, addr, path string) error {
	cfg, err := l.Load(inputs)
	if err != nil {
		return err
	}
	if err := declareImport(cfg, plan.Addr(addr), path); err != nil {
		return err
	}
	o.Targets = []string{addr}
	return l.ConnectAll(ctx, cfg, false, func(s *stack.Stack) error {
		return change.Run(ctx, h, o, s, func(p *plan.Plan) { // the plan is about one address: it needs no warning about the others
			p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == problem.Targeted })
		})
	})
}

// lockTypes are the names of all types that an idle node can have: locks, without namespaces and families.
func lockTypes() (names []string) {
	for _, k := range kind.All() {
		if !k.Container && k.Key == nil { // an empty node says nothing of the keys of a family
			names = append(names, k.Name)
		}
	}
	return names
}

// idleKinds says which type idle nodes have: the value of -kind with the longest matching path counts.
func idleKinds(values []string) (func(path string) *kind.Kind, error) {
	kinds := map[string]*kind.Kind{}
	for _, v := range values {
		i := strings.LastIndexByte(v, '=')
		at, name := cmp.Or(v[:max(i, 0)], "/"), v[i+1:]
		if err := kind.ValidatePath(at); err != nil {
			return nil, view.Failf("Illegal path", "-kind=%s: %v.", v, err)
		}
		if !slices.Contains(lockTypes(), name) {
			return nil, view.Failf("Unknown type", "-kind=%s: there is no lock of that type. Choose one of: %s.", v, strings.Join(lockTypes(), ", "))
		}
		kinds[at] = kind.Lookup(name)
	}
	return func(path string) *kind.Kind {
		for ; kinds[path] == nil && path != "/"; path = kind.ParentPath(path) {
		}
		return kinds[path]
	}, nil
}

// Tree looks at a subtree, lists the locks in it, and writes the file.
func Tree(ctx context.Context, to *screen.Screen, l *stack.Loader, o Options) error {
	if err := kind.ValidatePath(o.From); err != nil {
		return view.Failf("Illegal path", "-from=%s: %v.", o.From, err)
	}
	idle, err := idleKinds(o.Kinds)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(l.Path(o.File)); o.File != "" && err == nil {
		return view.Failf("Refusing to overwrite a file", "%s exists. Choose another name for -generate, or remove it.", o.File)
	}
	cfg, err := l.Load(o.Inputs)
	if err != nil {
		return err
	}
	e, err := stack.Ensemble(cfg, o.Ensemble)
	if err != nil {
		return err
	}
	client, err := l.Connect(ctx, e, true)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := client.Session(ctx)
	for _, root := range []string{e.Root, o.From} {
		if err == nil {
			err = read.Recognize(ctx, s, &plan.Tree{Root: root, Stack: cfg.Stack})
		}
	}
	if err != nil {
		return stack.Denied(ctx, client, err)
	}
	surveyor := survey.Surveyor{Stack: cfg.Stack, Idle: idle, Most: maxSurvey}
	found, cut, err := surveyor.Survey(ctx, client, o.From)
	var mixed error
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return view.Failf("Nothing there", "The ensemble has no node %s.", o.From)
	case found != nil && err != nil:
		mixed = view.Failf("Two types of locks in one node", "%v. No declaration fits this node, so it is left out. Let the programs use one node for each type of lock.", err)
	case err != nil:
		return stack.Denied(ctx, client, err)
	case cut:
		return view.Failf("Too many nodes", "There are more than %d nodes below -from. Import a smaller subtree at a time.", maxSurvey)
	}
	leaveOut(found, "")
	for _, line := range found.Lines() {
		fmt.Fprintln(to.Stdout, view.Line(line))
	}
	if o.File == "" {
		return mixed
	}
	whole, err := surveyor.Around(ctx, client, found, e.Root)
	if err != nil {
		return stack.Denied(ctx, client, err)
	}
	leaveOut(whole, "")
	return view.Join(generate(to, l, o, cfg, e, found, whole), mixed)
}

// leaveOut skips nodes that no configuration can name, and the nodes in them.
func leaveOut(f *survey.Found, why string) {
	if err := config.TextError(kind.BaseName(f.Path)); err != nil {
		why = fmt.Sprintf("its name %v; only a lock with another name can be declared", err)
	}
	if f.Skip == "" {
		f.Skip = why
	}
	for _, inside := range f.Inside {
		leaveOut(inside, why)
	}
}

// maxSurvey bounds what one import reads, so that a wrong -from on a large ensemble
// fails soon.
const maxSurvey = 100_000

// generate writes what was found as configuration, into a file that only its owner can read, because it contains digests. Then
// it loads the configuration with that file, so that errors show now.
func generate(to *screen.Screen, l *stack.Loader, o Options, cfg *config.Config, e *config.Ensemble, found, whole *survey.Found) error {
	if !kind.Below(found.Path, e.Root) {
		return view.Failf("Outside of the root", "%s is outside of the ensemble's root, %s, and an import leaves each lock at its path. Choose a root above both.", found.Path, e.Root)
	}
	tops := []*survey.Found{whole}
	if found.Path == e.Root {
		tops = found.Inside
	}
	made := adopt.Write(cfg, e, existing(tops), strings.TrimSuffix(path.Base(o.File), ".locktree.hcl"))
	if made.Locks+made.Unknown == 0 {
		return view.Failf("Nothing to generate", "No lock was recognised below %s, nor a node that may be one.", found.Path)
	}
	head := fmt.Sprintf("# What \"locktree import -from %s\" found. Read it, correct it, then run locktree plan.\n", found.Path)
	if err := disk.Create(l.Path(o.File), 0o600, append([]byte(head), made.Source...)); err != nil {
		return view.Failf("Cannot write "+o.File, "%v. Choose another file for -generate.", err)
	}
	to.Message(fmt.Sprintf("Wrote %s to %s. Nothing was written to ZooKeeper: \"locktree plan\" shows what an apply would do.", view.Plural(made.Imports, "import block"), o.File))
	if made.Commented > 0 {
		to.Message(fmt.Sprintf("It has %d more as comments: their declarations belong in blocks that are already declared. Move the declarations there; the import blocks stay outside.", made.Commented))
	}
	if made.Unknown > 0 {
		to.Message(fmt.Sprintf("%s, which no program uses, %s in it as comments: correct the types there, or give them with -kind.", view.Plural(made.Unknown, "node"), map[bool]string{true: "is", false: "are"}[made.Unknown == 1]))
	}
	_, err := l.Load(o.Inputs)
	return err
}

func existing(found []*survey.Found) (out []*adopt.Existing) {
	for _, f := range found {
		out = append(out, &adopt.Existing{Path: f.Path, Kind: f.Kind, Params: f.Params, ACL: f.ACL, Notes: f.Notes, Skip: f.Skip, Stops: f.Stops, Inside: existing(f.Inside)})
	}
	return out
}

// declareImport adds an import to the configuration, without a file.
func declareImport(cfg *config.Config, addr plan.Addr, path string) error {
	if err := kind.ValidatePath(path); err != nil {
		return view.Failf("Illegal path", "%q: %v.", path, err)
	}
	e, n := stack.NodeAt(cfg, addr)
	if n == nil {
		return view.Failf("Address is not declared", "Nothing is declared at %s. Declare it first%s; the import then says which znode to take over. \"locktree import -from PATH -generate FILE\" writes the declarations, too.", addr, blockOf(addr))
	}
	if other := e.Tree.Find(path); other != nil && other != n {
		return view.Failf("Path in use", "%s is the path of %s at %s. Import it there; to give that lock another address, write a moved block.", path, other.Addr, other.Origin)
	}
	imports := &e.Tree.Intent.Imports
	if i := slices.IndexFunc(*imports, func(i plan.Import) bool { return i.To == addr || i.Path == path }); i >= 0 {
		return compareImport((*imports)[i], addr, path)
	}
	*imports = append(*imports, plan.Import{To: addr, Path: path, Origin: n.Origin, ByCommand: true})
	return nil
}

// compareImport compares an import block with an import on the command line, if they have the address or the path in common. If
// only one of the two is equal, two znodes would become one lock, or one znode two locks.
func compareImport(block plan.Import, addr plan.Addr, path string) error {
	switch {
	case block.To == addr && block.Path == path:
		return nil
	case block.To == addr:
		return view.Failf("Imported twice", "%s is imported from %s at %s. Give that path, or change the block.", addr, block.Path, block.Origin)
	}
	return view.Failf("Imported twice", "%s becomes %s at %s, and a znode can be only one lock. Delete that block, or give another path.", path, block.To, block.Origin)
}

// blockOf returns an example for an error text, such as `, for example mutex "ledger" {}`. It returns "" if the address has keys, or
// is not one of a node.
func blockOf(addr plan.Addr) string {
	if addr != addr.Block() || kind.Lookup(addr.Type()) == nil || addr.Name() == "" {
		return ""
	}
	where := ""
	if addr.Parent() != "" {
		where = " in its namespace"
	}
	return fmt.Sprintf(", for example %s %q {}%s", addr.Type(), addr.Name(), where)
}
