package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// Where nothing is declared, each program brings the number of permits, and programs that bring different ones break each
// other's limit. There is no place to look the number up: writing one into a node that is not ours to declare would settle
// it for ever, and outlive the last program that meant it. But a permit of ours says of how many it is one (kind.Holder),
// so who takes permits reads those that it joins, and refuses to be granted beside another number.
//
// Of two holders the younger has looked behind its own creation, when the older was there, so no two of this library's
// hold under different numbers. Curator's permits do not say theirs.

// agree reads the permits older than ours. It costs a listing, and a read for each, where nothing is declared; else nothing.
func (d *draw) agree(ctx context.Context) error {
	if d.permits == nil || d.d.payload != nil {
		return nil
	}
	dir := d.permits[0].dir
	children, err := listChildren(ctx, d.s, dir)
	if err != nil {
		return d.timedOut(ctx, err)
	}
	line, _ := kind.SortContenders(children)
	var older []string
	for _, k := range line[:max(0, slices.IndexFunc(line, func(k kind.Contender) bool { return k.Name == d.permits[0].name }))] {
		older = append(older, k.Name)
	}
	var others []Contender
	err = retry(ctx, d.s, unanswered, func() (err error) {
		others, _, err = inspect.Contenders(ctx, d.s, dir, older)
		return err
	})
	if err != nil {
		return d.timedOut(ctx, err)
	}
	for _, c := range others {
		if err := d.sameLimit(c); err != nil {
			return err
		}
	}
	return nil
}

// sameLimit compares with one permit, as far as its data is known and says anything.
func (d *draw) sameLimit(c Contender) error {
	var h kind.Holder
	if d.d.payload != nil || json.Unmarshal(c.Data, &h) != nil || h.Limit == 0 || h.Limit == d.limit() {
		return nil
	}
	return fmt.Errorf("%w: semaphore %s: %s takes it to have %d permits, this program brings %d; declare it and run apply, or bring the same number everywhere",
		ErrNotProvisioned, d.q.path, c.ID, h.Limit, d.limit())
}
