// A small controller. Every ten seconds it reads a directory of configuration, plans and applies. So it follows changes of the files
// and takes back what somebody changed by hand. It prints each apply, and each new error, as one JSON object a line. SIGINT and
// SIGTERM end it. It takes none of the locks, so it uses no generated handles.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

func main() {
	dir := flag.String("dir", ".", "directory of the configuration")
	every := flag.Duration("every", 10*time.Second, "how often to look")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	follow(ctx, *dir, *every, os.Stdout)
}

// report is what was done on an ensemble, or why nothing was.
type report struct {
	Ensemble string        `json:"ensemble,omitempty"`
	Plan     *plan.Plan    `json:"plan,omitempty"`
	Result   *apply.Result `json:"result,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// follow looks again and again, until ctx ends. It reports what it changed, and each error once.
func follow(ctx context.Context, dir string, every time.Duration, out io.Writer) {
	last := map[string]string{} // error of each ensemble
	for ctx.Err() == nil {
		now := map[string]string{}
		for _, r := range reconcile(ctx, dir) {
			now[r.Ensemble] = r.Error
			if r.Error == last[r.Ensemble] && (r.Error != "" || r.Result.ApplyID == "") {
				continue
			}
			line, err := json.Marshal(r)
			if err != nil {
				line = []byte(err.Error())
			}
			_, _ = out.Write(append(line, '\n'))
		}
		last = now
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

// reconcile makes every ensemble what is declared for it. While the configuration has errors, everything stays as it is. That ctx has
// ended is no error of an ensemble, unless it ended an apply.
func reconcile(ctx context.Context, dir string) (all []report) {
	stack, diags := config.Load(dir, config.Options{Environ: os.Environ()})
	if diags.HasErrors() {
		return []report{{Error: diags.Error()}}
	}
	for _, e := range stack.Ensembles {
		r := report{Ensemble: e.Name}
		err := r.provision(ctx, e)
		if errors.Is(err, context.Canceled) && r.Plan == nil {
			return all
		}
		if err != nil {
			r.Error = err.Error()
		}
		all = append(all, r)
	}
	return all
}

// provision plans and applies on one ensemble, under the apply lock. A plan with errors, or of a lock that is in use, is refused.
func (r *report) provision(ctx context.Context, e *config.Ensemble) error {
	client, err := e.Dial(ctx, recipes.Config{})
	if err != nil {
		return err
	}
	defer client.Close()
	run, err := apply.Begin(ctx, client, e.Tree, apply.Options{Who: "controller", LockTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer run.Close()
	r.Plan = run.Plan(plan.Options{})
	r.Result, err = run.Apply(ctx, r.Plan)
	return err
}
