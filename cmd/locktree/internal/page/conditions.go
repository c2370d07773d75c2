package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/inspect/check"
)

func (p *problemsOf) conditions() {
	if p.e.Checkup == nil {
		return
	}
	all := together(slices.DeleteFunc(p.e.Checkup.Findings(), func(k lockview.Finding) bool {
		return k.Verdict != check.Fails || p.missing[strings.TrimPrefix(k.Name, "access ")] // which is told already
	}))
	for _, k := range all[:min(len(all), mostListed)] {
		p.add(true, "condition", "", clip(k.Where+": "+k.Name+": "+k.What), "locktree doctor")
	}
	if n := len(all) - mostListed; n > 0 {
		p.add(true, "condition", "", fmt.Sprintf("%d more conditions fail.", n), "locktree doctor")
	}
}

// together makes one finding of those that say the same of several servers or nodes.
func together(all []lockview.Finding) (out []lockview.Finding) {
	type same struct {
		verdict    check.Verdict
		what, next string
	}
	at, where, names := map[same]int{}, [][]string{}, [][]string{}
	for _, k := range all {
		key := same{k.Verdict, k.What, k.Next}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key], out, where, names = i, append(out, k), append(where, nil), append(names, nil)
		}
		where[i], names[i] = with(where[i], k.Where), with(names[i], k.Name)
	}
	for i := range out {
		out[i].Where, out[i].Name = view.FirstFew(where[i]), view.FirstFew(names[i])
	}
	return out
}
