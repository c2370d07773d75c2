package main

import (
	"errors"
	"io"
	"os"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
)

// savePlan writes a file that only its owner can read, complete or not at all. It replaces
// an existing file only if that is a plan, too, or empty: a typing error must not cost a configuration.
func (a *app) savePlan(name string, cfg *config.Config, plans []*plan.Plan) error {
	path := a.path(name)
	if info, err := os.Stat(path); err == nil && (!info.Mode().IsRegular() || info.Size() > 0 && !isPlan(path)) {
		return view.Failf("Refusing to overwrite a file", "%s exists and is not a plan. Choose another name for -out, or remove the file.", name)
	}
	file := plan.File{Format: plan.FileFormat, Version: version(), Stack: cfg.Stack, Plans: plans, Checks: cfg.Checks}
	if err := replaceFile(path, 0o600, file.Encode); err != nil {
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
	_, err = plan.DecodeFile(io.LimitReader(f, 64))
	return !errors.Is(err, plan.ErrNotPlan)
}

// readPlan reads a file of plan -out.
func (a *app) readPlan(name string) (*plan.File, error) {
	r, err := os.Open(a.path(name))
	if err != nil {
		return nil, view.Failf("Cannot read the plan file", "%v. Save one with \"plan -out FILE\".", err)
	}
	defer r.Close()
	return plan.DecodeFile(r)
}
