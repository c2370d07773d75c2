package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/saved"
)

// Save writes a plan into a file that only its owner can read, whole or not at all. It replaces an existing file only if that is a
// plan, too, or empty: a typing error must not cost a configuration.
func Save(l *stack.Loader, name string, q *saved.Question, answer []*plan.Plan) error {
	path := l.Path(name)
	if info, err := os.Stat(path); err == nil && (!info.Mode().IsRegular() || info.Size() > 0 && !isPlan(path)) {
		return view.Failf("Refusing to overwrite a file", "%s exists and is not a plan. Choose another name for -out, or remove the file.", name)
	}
	if err := disk.Replace(path, 0o600, func(w io.Writer) error { return q.Encode(w, l.Version, answer) }); err != nil {
		return view.Failf("Cannot write the plan", "%v. Nothing was written to ZooKeeper either. Choose another file for -out.", err)
	}
	return nil
}

// isPlan reports whether a file begins as a plan.
func isPlan(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = saved.Decode(io.LimitReader(f, 64), "")
	return !errors.Is(err, saved.ErrNotPlan)
}

// ReadPlan reads a file of plan -out.
func ReadPlan(l *stack.Loader, name string) (*saved.File, error) {
	if info, err := os.Stat(l.Path(name)); err == nil && !info.Mode().IsRegular() {
		return nil, view.Failf("Cannot read the plan file", "%s is not a regular file, but a directory, a device or a pipe. Save the plan with \"plan -out FILE\".", name)
	}
	r, err := os.Open(l.Path(name))
	if err != nil {
		return nil, view.Failf("Cannot read the plan file", "%v. Save one with \"plan -out FILE\".", err)
	}
	defer r.Close()
	file, err := saved.Decode(r, l.Version)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return file, nil
}

// Saved applies a saved plan to the ensembles that it was made for. The configuration only says where these are, and with which
// identity to connect: plans contain no credentials.
func Saved(ctx context.Context, h Host, o Options, l *stack.Loader, inputs []config.Input, name string) error {
	file, err := ReadPlan(l, name)
	if err != nil {
		return err
	}
	cfg, err := l.Load(inputs)
	if err != nil {
		h.Message("\nThe configuration says where to apply a saved plan, and with which identity. The plan contains no values of\nvariables: give them as you gave them to \"locktree plan\".")
		return err
	}
	if err := file.CheckStack(cfg.Stack); err != nil {
		return err
	}
	at := make([]int, len(file.Plans)) // for each plan, the index of its ensemble
	for i, p := range file.Plans {
		if at[i], err = ensembleOf(cfg, p); err != nil {
			return err
		}
	}
	for _, e := range cfg.Ensembles {
		e.Tree.Nodes = nil // the plan has its own copy of the declared nodes, so free this one
	}
	return l.ConnectAll(ctx, cfg, false, func(s *stack.Stack) error {
		all := make([]*applying, len(file.Plans))
		for i, p := range file.Plans {
			client, shown := s.Clients[at[i]], newProgress(h, p.Ensemble)
			all[i] = &applying{apply.New(client, o.apply(p.Destroy, shown.event)), client, shown}
		}
		return execute(ctx, h, o, all, file.Plans)
	})
}

// ensembleOf finds the ensemble of a saved plan. It must still have the root of the plan, and one of its servers.
func ensembleOf(cfg *config.Config, p *plan.Plan) (int, error) {
	const summary = "Saved plan does not match the configuration"
	i := slices.IndexFunc(cfg.Ensembles, func(e *config.Ensemble) bool { return e.Name == p.Ensemble })
	if i < 0 {
		return 0, view.Failf(summary, "The plan is for ensemble %q, which the configuration does not declare. Apply it from the directory it was made in, or make a new plan.", p.Ensemble)
	}
	e := cfg.Ensembles[i]
	switch {
	case e.Root != p.Root:
		return 0, view.Failf(summary, "The plan is for ensemble %q below %s; the configuration now says %s. Make a new plan.", p.Ensemble, p.Root, e.Root)
	// With other variables, the ensemble block may name other servers. A plan for a new stack would also be valid on those.
	case len(p.Servers) > 0 && !slices.ContainsFunc(p.Servers, func(server string) bool { return slices.Contains(e.Servers, server) }):
		return 0, view.Failf(summary, "The plan for ensemble %q was made on %s; the configuration now says %s. Give the variables that \"locktree plan\" was given, or make a new plan.",
			p.Ensemble, strings.Join(p.Servers, ","), strings.Join(e.Servers, ","))
	}
	return i, nil
}
