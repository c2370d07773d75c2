package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/spf13/cobra"
)

func (a *app) stateRebuild() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "rebuild",
		Short: "Write the index anew from the marks in the znodes",
		Long: "rebuild reads what is declared and what carries this stack's mark in its namespaces, and\n" +
			"writes the index as that is. An index that is damaged is removed first. No lock changes.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return f.exit(a.rebuild(c.Context(), &f)) },
	}
	f.register(c)
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve")
	return c
}

func (a *app) rebuild(ctx context.Context, f *applyFlags) error {
	if a.json != 0 && !f.autoApprove {
		return view.Failf("Auto-approve required", "With -json nobody can be asked. Add -auto-approve.")
	}
	defer a.interruptible(ctx)()
	cfg, err := a.load(&f.loadFlags)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer s.close()
	broken := make([]string, len(cfg.Ensembles))
	versions := make([]int32, len(cfg.Ensembles))
	for i := range cfg.Ensembles {
		if broken[i], versions[i], err = brokenIndex(ctx, s, i); err != nil {
			return err
		}
	}
	if text := strings.TrimSpace(strings.Join(broken, " ")); text != "" {
		a.view().Message("The index is damaged, and will be removed and written anew: " + text)
		if !f.autoApprove {
			if err := a.confirm(ctx, f); err != nil {
				return err
			}
		}
		f.autoApprove = true // what follows is what was asked about
	}
	for i, at := range broken {
		if at == "" {
			continue
		}
		session, err := s.clients[i].Session(ctx)
		if err != nil {
			return err
		}
		if err := session.Delete(ctx, at, versions[i]); err != nil {
			return denied(s.clients[i], err)
		}
	}
	trees, err := s.read(ctx)
	if err != nil {
		return err
	}
	plans := s.diff(trees, plan.Options{RefreshOnly: true})
	for i, tree := range trees {
		if tree.Index == nil {
			unnoted(plans[i])
		}
	}
	a.view().Plan(view.Plan{Plans: plans, Operation: "refresh", Files: cfg.Sources, Concise: f.concise, NowMs: time.Now().UnixMilli(), NoAdvice: true})
	return a.approveAndExecute(ctx, f, s, plans)
}

// unnoted makes a refresh note every node: there is no index that could know one.
func unnoted(p *plan.Plan) {
	p.Drifted = nil
	for i := range p.Changes {
		c := &p.Changes[i]
		c.Drift = true
		p.Drifted = append(p.Drifted, plan.Drift{Addr: c.Addr, Path: c.Path, What: plan.DriftChanged})
	}
}

// brokenIndex is where the index of a stack is no index, and its data version. A
// newer format is not broken: it is for a newer program to read.
func brokenIndex(ctx context.Context, s *stack, i int) (at string, version int32, err error) {
	session, err := s.clients[i].Session(ctx)
	if err != nil {
		return "", 0, err
	}
	at = plan.IndexPath(s.Ensembles[i].Root, s.Stack)
	data, stat, err := session.Get(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, denied(s.clients[i], err)
	}
	_, err = plan.DecodeIndex(data)
	var damaged *plan.DamagedError
	switch {
	case err == nil:
		return "", 0, nil
	case errors.Is(err, plan.ErrNotIndex), errors.As(err, &damaged):
		return at, stat.Version, nil
	}
	return "", 0, err
}
