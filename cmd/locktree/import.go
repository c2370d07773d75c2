package main

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
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/adopt"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/inspect/survey"
	"github.com/locktree/locktree/recipes/kind"
)

type importFlags struct {
	applyFlags
	from, generate, ensemble string
	kinds                    []string
}

func importCommand(a *app) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import {ADDRESS PATH | -from PATH}",
		Short: "Take over existing locks",
		Long: "import ADDRESS PATH takes over one znode: it becomes the node declared at ADDRESS.\n\n" +
			"If programs use the lock, its node stays as it is, and may be a container, which the servers\n" +
			"delete soon after the last program left. Each apply that finds it idle creates it again as a\n" +
			"node that stays. apply -replace=ADDRESS -drain=10m waits for that.\n\n" +
			"import -from PATH looks at a whole subtree, recognises the locks in it by the names of their\n" +
			"contenders, and lists them. With -generate FILE it also writes a configuration with import\n" +
			"blocks for them. It writes nothing to ZooKeeper; review the file, then run plan and apply.\n" +
			"It looks at no more than 100,000 nodes; import a larger tree in parts.\n\n" +
			"Nothing tells what a node is that no program uses: it becomes a comment in the file. -kind says\n" +
			"what such nodes are: -kind mutex of all, -kind /locks/leaders=election of those at and below\n" +
			"a path. It may be repeated, and the longest path counts. Queues, barriers, counters, groups and\n" +
			"other nodes that are no locks are named and left out.",
		Args: atMost(2),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.from != "" && len(args) == 0:
				return a.importTree(c.Context(), &f)
			case f.from == "" && len(args) == 2 && f.generate == "":
				return f.coded(a.importOne(c.Context(), &f, args[0], args[1]))
			}
			return usage(c, "Address and path missing", "Give an address and a path, or -from=PATH with or without -generate=FILE.")
		},
	}
	f.register(c)
	c.ValidArgsFunction = a.firstAddress(&f.loadFlags, cobra.ShellCompDirectiveNoFileComp)
	c.Flags().StringVar(&f.from, "from", "", "the `PATH` of the subtree to look at")
	c.Flags().StringVar(&f.generate, "generate", "", "write what was found to this new `FILE`")
	c.Flags().StringArrayVar(&f.kinds, "kind", nil, "the `[PATH=]TYPE` of nodes that no program uses, such as mutex; may be repeated")
	c.Flags().StringVar(&f.ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	c.Flags().BoolVar(&f.OverwriteData, "overwrite-data", false, "replace data that another program wrote into the node")
	return c
}

// importOne is an import block on the command line: a plan of one address, which is shown,
// approved and applied.
func (a *app) importOne(ctx context.Context, f *importFlags, addr, path string) error {
	defer a.Interruptible(ctx)()
	cfg, err := a.loader().Load(f.loadFlags.inputs)
	if err != nil {
		return err
	}
	if err := declareImport(cfg, plan.Addr(addr), path); err != nil {
		return err
	}
	return a.loader().ConnectAll(ctx, cfg, false, func(s *stack.Stack) error {
		opts := plan.Options{Targets: []string{addr}, OverwriteData: f.OverwriteData}
		return change.Run(ctx, a, f.change(a, opts), s, func(p *plan.Plan) { // about one address: no warning that others are left out
			p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == problem.Targeted })
		})
	})
}

// lockTypes are the types of locks, without those of containers.
func lockTypes() (names []string) {
	for _, k := range kind.All() {
		if !k.Container && k.Key == nil { // an empty node says nothing of the keys of a family
			names = append(names, k.Name)
		}
	}
	return names
}

// idleKinds says what idle nodes are: of the values of -kind, that with the longest path counts.
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

// importTree looks at a subtree, over a connection that cannot write.
func (a *app) importTree(ctx context.Context, f *importFlags) error {
	if err := kind.ValidatePath(f.from); err != nil {
		return view.Failf("Illegal path", "-from=%s: %v.", f.from, err)
	}
	idle, err := idleKinds(f.kinds)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(a.loader().Path(f.generate)); f.generate != "" && err == nil {
		return view.Failf("Refusing to overwrite a file", "%s exists. Choose another name for -generate, or remove it.", f.generate)
	}
	defer a.Interruptible(ctx)()
	cfg, err := a.loader().Load(f.loadFlags.inputs)
	if err != nil {
		return err
	}
	e, err := stack.Ensemble(cfg, f.ensemble)
	if err != nil {
		return err
	}
	client, err := a.loader().Connect(ctx, e, true)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := client.Session(ctx)
	for _, root := range []string{e.Root, f.from} {
		if err == nil {
			err = read.Recognize(ctx, s, &plan.Tree{Root: root, Stack: cfg.Stack})
		}
	}
	if err != nil {
		return stack.Denied(ctx, client, err)
	}
	surveyor := survey.Surveyor{Stack: cfg.Stack, Idle: idle, Most: maxSurvey}
	found, cut, err := surveyor.Survey(ctx, client, f.from)
	var mixed error
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return view.Failf("Nothing there", "The ensemble has no node %s.", f.from)
	case found != nil && err != nil:
		mixed = view.Failf("Two types of locks in one node", "%v. No declaration fits, so it is left out: let the programs use two nodes.", err)
	case err != nil:
		return stack.Denied(ctx, client, err)
	case cut:
		return view.Failf("Too many nodes", "There are more than %d nodes below -from. Import a smaller subtree at a time.", maxSurvey)
	}
	leaveOut(found, "")
	for _, line := range found.Lines() {
		fmt.Fprintln(a.Stdout, view.Line(line))
	}
	if f.generate == "" {
		return mixed
	}
	whole, err := surveyor.Around(ctx, client, found, e.Root)
	if err != nil {
		return stack.Denied(ctx, client, err)
	}
	leaveOut(whole, "")
	return view.Join(a.generate(cfg, e, found, whole, f), mixed)
}

// leaveOut skips nodes that no configuration can name, and those in them.
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
func (a *app) generate(cfg *config.Config, e *config.Ensemble, found, whole *survey.Found, f *importFlags) error {
	if !kind.Below(found.Path, e.Root) {
		return view.Failf("Outside of the root", "%s is outside of the ensemble's root, %s, and an import leaves each lock at its path. Choose a root above both.", found.Path, e.Root)
	}
	tops := []*survey.Found{whole}
	if found.Path == e.Root {
		tops = found.Inside
	}
	made := adopt.Write(cfg, e, existing(tops), strings.TrimSuffix(path.Base(f.generate), ".locktree.hcl"))
	if made.Locks+made.Unknown == 0 {
		return view.Failf("Nothing to generate", "No lock was recognised below %s, nor a node that may be one.", found.Path)
	}
	head := fmt.Sprintf("# What \"locktree import -from %s\" found. Read it, correct it, then run locktree plan.\n", found.Path)
	if err := disk.Create(a.loader().Path(f.generate), 0o600, append([]byte(head), made.Source...)); err != nil {
		return view.Failf("Cannot write "+f.generate, "%v. Choose another file for -generate.", err)
	}
	a.Message(fmt.Sprintf("Wrote %s to %s. Nothing was written to ZooKeeper: \"locktree plan\" shows what an apply would do.", view.Plural(made.Imports, "import block"), f.generate))
	if made.Commented > 0 {
		a.Message(fmt.Sprintf("It has %d more as comments: they belong in blocks that are already declared. Move them there.", made.Commented))
	}
	if made.Unknown > 0 {
		a.Message(fmt.Sprintf("%s, which no program uses, %s in it as comments: correct the types there, or give them with -kind.", view.Plural(made.Unknown, "node"), map[bool]string{true: "is", false: "are"}[made.Unknown == 1]))
	}
	_, err := a.loader().Load(f.loadFlags.inputs)
	return err
}

func existing(found []*survey.Found) (out []*adopt.Existing) {
	for _, f := range found {
		out = append(out, &adopt.Existing{Path: f.Path, Kind: f.Kind, Params: f.Params, ACL: f.ACL, Notes: f.Notes, Skip: f.Skip, Stops: f.Stops, Inside: existing(f.Inside)})
	}
	return out
}

// declareImport adds an import that is in no file.
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
		return beside((*imports)[i], addr, path)
	}
	*imports = append(*imports, plan.Import{To: addr, Path: path, Origin: n.Origin, ByCommand: true})
	return nil
}

// beside compares an import block with an import on the command line that has its address
// or its path: unless they are the same, two znodes would become one lock, or one znode two.
func beside(block plan.Import, addr plan.Addr, path string) error {
	switch {
	case block.To == addr && block.Path == path:
		return nil
	case block.To == addr:
		return view.Failf("Imported twice", "%s is imported from %s at %s. Give that path, or change the block.", addr, block.Path, block.Origin)
	}
	return view.Failf("Imported twice", "%s becomes %s at %s, and a znode can be only one lock. Delete that block, or give another path.", path, block.To, block.Origin)
}

// blockOf is how the block of an address begins, as advice; "" if that is not simple.
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
