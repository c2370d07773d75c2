package lock

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// Tries bounds how often a write, or a transaction that is known not to have been committed, is sent again.
const Tries = 3

// Write sets the data of one node under the lock, together with the operations beside. A copy sent again
// after a lost reply has the same version, so at most one is applied; a refusal may then be the echo of
// our own success.
//
// Version and data tell whether our write was applied. Two writers of the same data at the same version
// cannot be distinguished, and need not be: under the lock, the other one wrote what we wanted.
func (h *Held) Write(ctx context.Context, path string, data []byte, version int32, beside ...any) (err error) {
	lost := false
	for range Tries {
		one, cancel := context.WithTimeout(ctx, h.Session.Timeout())
		_, err = h.Lease.Multi(one, append(beside, &zk.SetDataRequest{Path: path, Data: data, Version: version})...)
		cancel()
		if err == nil || !refusal.Unknown(err) && !lost {
			return err
		}
		got, stat, readErr := h.Session.Get(ctx, path)
		if readErr == nil && stat.Version == version+1 && bytes.Equal(got, data) {
			return nil
		}
		if !refusal.Unknown(err) {
			return err
		}
		lost = true
	}
	return err
}

// SetACL sets one list. If the reply is lost, or the version has changed, it reads the list to
// see whether it is as it should be. A repeated request is guarded by the same version. It returns the aversion since then, or that
// of the step.
func (h *Held) SetACL(ctx context.Context, step plan.ACLStep) (aversion int32, err error) {
	for range Tries {
		var stat *zk.Stat
		if stat, err = h.Session.SetACL(ctx, step.Path, wire.ToZK(step.ACL), step.Aversion); err == nil {
			return stat.Aversion, nil
		}
		if !refusal.Unknown(err) && !errors.Is(err, zk.ErrBadVersion) {
			break
		}
		got, stat, readErr := h.Session.GetACL(ctx, step.Path)
		if readErr == nil && wire.FromZK(got).Equal(step.ACL) {
			return stat.Aversion, nil
		}
		if errors.Is(readErr, recipes.ErrSessionLost) { // this says more than the lost reply
			err = readErr
		}
		// Not set, and the version has changed or is unknown: do not overwrite somebody's list
		// (TestAccessListChangedByHandIsNotOverwritten).
		if readErr != nil || !refusal.Unknown(err) {
			break
		}
	}
	if errors.Is(err, recipes.ErrSessionLost) {
		return step.Aversion, h.LostSince(err)
	}
	return step.Aversion, refusal.ACL(step, err)
}

// LostSince is for a lock that is lost after the last transaction: ACLPhaseError says what to do next.
func (h *Held) LostSince(err error) error {
	e := refusal.Lock(h.Lease.Path(), err)
	e.Written, e.Next = "", ""
	return e
}
