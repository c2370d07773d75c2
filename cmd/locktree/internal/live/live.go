// Package live shows what a stack has in ZooKeeper: its locks with their holders and waiters, its nodes, its outputs and its history.
//
// It relies on package stack to read, and on the views to render. It only reads. Each function shows everything that could be
// read, and returns an error about the rest.
//
//	err := loader.Look(ctx, inputs, func(s *stack.Stack) error { return live.Tree(ctx, screen, s) })
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/direct"
)

// Status shows every lock of the stack, and reports whether the live tree differs from the configuration.
func Status(ctx context.Context, to *screen.Screen, s *stack.Stack, filter lockview.Filter) (differs bool, err error) {
	trees, err := s.Read(ctx)
	if len(trees) == 0 {
		return false, err
	}
	plans := s.Diff(trees, plan.Options{})
	looks, notRead := s.Looks(ctx, trees)
	err = cmp.Or(err, notRead)
	to.Show(lockview.Status{Trees: trees, Declared: s.Declared(), Drift: plans, Servers: stack.Servers(s.Config), Looks: looks, Lost: s.Lost, Filter: filter, NowMs: time.Now().UnixMilli()})
	return planview.Changed(plans) || planview.Failing(plans), view.Join(err, s.AllRead(ctx, trees))
}

// Locks shows the locks at and below a path, or the lock of a key in the family there.
func Locks(ctx context.Context, to *screen.Screen, s *stack.Stack, filter lockview.Filter, path string, key stack.Key, reads int) error {
	found, err := s.LookAt(ctx, path, key, reads)
	if len(found) > 0 {
		to.Show(lockview.Locks{Ensembles: found, Filter: filter, NowMs: time.Now().UnixMilli()})
	}
	return err
}

// Tree shows the nodes that exist, and then the outputs of the last apply. With an address, it only shows the nodes at it and below.
func Tree(ctx context.Context, to *screen.Screen, s *stack.Stack, addresses ...string) error {
	trees, err := s.Read(ctx)
	if err == nil {
		err = s.AllRead(ctx, trees)
	}
	for _, tree := range trees {
		tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool { return n.Payload == nil || n.Payload.Owner.Stack != s.Config.Stack })
	}
	if trees == nil {
		return err
	}
	if len(addresses) > 0 {
		shown := showSubtree(to, trees, addresses[0])
		return cmp.Or(err, shown) // the lock, or a part of it, may be among the nodes that cannot be read
	}
	to.Show(planview.Live(trees))
	if err == nil {
		err = recordsLost(trees)
	}
	if to.JSON != 0 {
		return err // the JSON document already has the outputs
	}
	if err == nil && !slices.ContainsFunc(trees, func(t *plan.Tree) bool { return len(t.Nodes) > 0 }) {
		to.Message("This stack has nothing in ZooKeeper. \"locktree plan\" shows what an apply would create.")
	}
	if outputs := planview.StoredOutputs(trees); len(outputs) > 0 {
		fmt.Fprint(to.Stdout, "\nOutputs:\n\n")
		to.Show(outputs)
	}
	return err
}

func showSubtree(to *screen.Screen, trees []*plan.Tree, address string) error {
	var addrs []plan.Addr
	trees = slices.DeleteFunc(trees, func(tree *plan.Tree) bool {
		tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool {
			addrs = append(addrs, plan.Addr(n.Payload.Owner.Addr))
			return !plan.Addr(address).Covers(addrs[len(addrs)-1])
		})
		return len(tree.Nodes) == 0
	})
	if len(trees) == 0 {
		return view.Failf("No such address", "This stack has nothing at %s in ZooKeeper. \"locktree show\" shows what it has.%s", address, explain.NearestAddr(address, addrs))
	}
	to.Show(planview.Live(trees))
	return nil
}

// Outputs returns the output values of the last apply. They are in the record of one ensemble. It needs the other ensembles only
// if no outputs are found. It needs the tree only if a record is missing: the tree shows whether there ever was a record.
func Outputs(ctx context.Context, s *stack.Stack) (planview.Outputs, error) {
	trees, err := s.Records(ctx)
	if outputs := planview.StoredOutputs(trees); len(outputs) > 0 {
		return outputs, nil
	}
	return nil, cmp.Or(err, recordsLost(trees))
}

// Output prints one value: as the configuration would write it, as JSON, or raw, without a line end.
func Output(to *screen.Screen, outputs planview.Outputs, name string, raw bool) error {
	i := slices.IndexFunc(outputs, func(o plan.Output) bool { return o.Name == name })
	if i < 0 {
		var names []string
		for _, o := range outputs {
			names = append(names, o.Name)
		}
		left := cmp.Or(strings.Join(names, ", "), "none")
		return view.Failf("Output not found", "The last apply stored no output %q. Available: %s. \"locktree apply\" stores new outputs.", name, left)
	}
	o := outputs[i]
	if o.Sensitive {
		return view.Failf("The output is sensitive", "The value of %q is not stored anywhere, so it cannot be shown. Take it from where the configuration gets it.", name)
	}
	switch {
	case raw:
		var v any
		if err := json.Unmarshal(o.Value, &v); err != nil {
			return err
		}
		switch v := v.(type) {
		case string:
			if screen.IsTerminal(to.Stdout) { // a terminal would obey control characters
				v = view.CleanLines(v)
			}
			fmt.Fprint(to.Stdout, v)
			return nil
		case float64, bool:
			fmt.Fprintf(to.Stdout, "%s", o.Value) // print it as stored: a float64 may print as 1e+08
			return nil
		}
		return view.Failf("Unsupported value for raw output", "%q is not a string, number or bool. Use -json, which shows every value.", name)
	case to.JSON != 0:
		fmt.Fprintf(to.Stdout, "%s\n", view.VisibleJSON(o.Value))
	default:
		fmt.Fprintln(to.Stdout, planview.OutputValue(o))
	}
	return nil
}

// History shows the history of each ensemble that can be read.
func History(ctx context.Context, to *screen.Screen, s *stack.Stack) error {
	errs := make([]error, len(s.Config.Ensembles))
	var out planview.History
	for i, e := range s.Config.Ensembles {
		of := planview.HistoryOf{Ensemble: e.Name, Stack: s.Config.Stack}
		errs[i] = s.On(ctx, i, func(session *direct.Session) (err error) {
			of.Entries, err = history.Read(ctx, session, e.Root, s.Config.Stack)
			return s.Denied(ctx, i, err)
		})
		if errs[i] == nil {
			out = append(out, of)
		}
	}
	if s.Lose(errs); len(out) > 0 {
		to.Show(out)
	}
	return s.Lost.Err()
}

// recordsLost returns an error if the record that would have the outputs is lost.
func recordsLost(trees []*plan.Tree) error {
	for _, tree := range trees {
		ours := func(n *plan.Node) bool { return n.Payload != nil && n.Payload.Owner.Stack == tree.Stack }
		if tree.Index == nil && (tree.IndexTrouble != "" || slices.ContainsFunc(tree.Nodes, ours)) {
			return view.Failf("Outputs are not known", "The stack's record at %s is missing or damaged. \"locktree apply\" writes it again, with the outputs.", tree.IndexPin.Path)
		}
	}
	return nil
}
