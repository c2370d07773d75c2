package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// globs are address patterns, compiled.
type globs struct {
	patterns []string
	compiled []*regexp.Regexp
	used     []bool
}

// compileGlobs compiles patterns. "*" stops at the separators of names, except in a key, where only
// the closing quote stops it; "**" stops nowhere. Keys in addresses are written as by strconv.Quote: a
// quote after a backslash is part of the key and does not close it.
func compileGlobs(patterns []string) *globs {
	g := &globs{patterns: patterns, used: make([]bool, len(patterns))}
	for _, p := range patterns {
		var b strings.Builder
		b.WriteByte('^')
		quoted := false
		for i := 0; i < len(p); i++ {
			switch {
			case strings.HasPrefix(p[i:], "**"):
				b.WriteString(".*")
				i++
			case p[i] == '*' && quoted:
				b.WriteString(`(?:[^"\\]|\\.)*`)
			case p[i] == '\\' && quoted && i+1 < len(p) && p[i+1] != '*':
				b.WriteString(regexp.QuoteMeta(p[i : i+2]))
				i++
			case p[i] == '*':
				b.WriteString(`[^.\["\]]*`)
			default:
				if p[i] == '"' {
					quoted = !quoted
				}
				b.WriteString(regexp.QuoteMeta(p[i : i+1]))
			}
		}
		// Quoting byte by byte keeps the expression valid, unless the pattern is not UTF-8: then it matches nothing.
		re, err := regexp.Compile(b.String() + `(?:$|[.\[])`)
		if err != nil {
			re = regexp.MustCompile(`^\b$`)
		}
		g.compiled = append(g.compiled, re)
	}
	return g
}

// Matching reports whether an address, or one above it, fits one of the patterns, which are as those of Options.Targets.
func Matching(patterns []string) func(Addr) bool {
	g := compileGlobs(patterns)
	return func(a Addr) bool { return g.match(a) }
}

// match goes through all patterns, even after a match: unused needs to know about each of them.
func (g *globs) match(addrs ...Addr) (ok bool) {
	for i, re := range g.compiled {
		for _, a := range addrs {
			if a != "" && re.MatchString(string(a)) {
				g.used[i], ok = true, true
			}
		}
	}
	return ok
}

// unused warns of patterns that matched nothing. It also tries nodes without a change: a node that is in
// the way of its declaration, or declared wrongly, has a problem instead.
func (d *sides) unused(what string, g *globs) {
	if !slices.Contains(g.used, false) {
		return
	}
	addrs := d.addrs(true)
	g.match(addrs...)
	for i, used := range g.used {
		if !used {
			d.unmatched(what, g.patterns[i], "address", addrs)
		}
	}
}

// unmatched warns of an address or pattern that matches nothing, most often a typing mistake.
func (d *sides) unmatched(what, given, kind string, addrs []Addr) {
	d.problem(Warning, ProblemTarget, &Node{Addr: Addr(given)}, "Nothing matches "+what,
		fmt.Sprintf("%s %q matches no %s of the configuration or of the ensemble: correct it, or leave it out.%s",
			Sentence(what)[:len(what)], given, kind, NearestAddr(given, addrs)))
}

// forced warns of addresses to break that are not locks.
func (d *sides) forced() {
	if len(d.opts.ForceBreak) == 0 {
		return
	}
	addrs := d.addrs(false)
	for _, given := range d.opts.ForceBreak {
		if !slices.Contains(addrs, Addr(given)) {
			d.unmatched("lock to break", given, "lock", addrs)
		}
	}
}

// addrs returns the addresses of what is declared, here or elsewhere, and of what exists: of locks, and
// if wanted of containers.
func (d *sides) addrs(containers bool) (out []Addr) {
	see := func(n *Node, addr Addr) {
		if k := n.Kind(); k != nil && (containers || !k.Container) {
			out = append(out, addr)
		}
	}
	for _, tree := range slices.Concat([]*Tree{{Nodes: d.given}}, d.intent.Elsewhere, d.opts.Elsewhere) {
		for _, n := range tree.Nodes {
			see(n, n.Addr)
		}
	}
	for _, n := range d.current.Nodes {
		if d.ours(n) {
			see(n, n.owned())
		}
	}
	return out
}

// limit drops the changes that were not asked for, see [Options].
//
// Patterns are matched with the present address and with the former one: people may use either for a
// lock whose new address is not applied yet.
func (d *selection) limit() {
	if len(d.opts.Targets)+len(d.opts.Excludes) == 0 {
		return
	}
	d.p.Targeted = true
	targets, excludes := compileGlobs(d.opts.Targets), compileGlobs(d.opts.Excludes)
	d.limitChanges(targets, excludes)
	d.sources(targets, excludes)
	d.unused("target", targets)
	d.unused("exclusion", excludes)
	d.problem(Warning, ProblemTargeted, &Node{}, "Resource targeting is in effect",
		"The plan was limited with -target or -exclude, so it may not represent everything the configuration asks for. "+
			"These options are for exceptional situations, such as recovering from mistakes: plan again without them afterwards.")
}

// sources finds the blocks of which something was asked for, in any ensemble: the plan of the ensemble that
// stores the outputs decides which of them are planned.
func (d *selection) sources(targets, excludes *globs) {
	for _, o := range d.intent.Outputs {
		for _, block := range o.From { // it may have no instances
			d.asked[block] = targets.scope(excludes, block)
		}
	}
	if len(d.asked) == 0 {
		return
	}
	for _, tree := range append([]*Tree{{Nodes: d.given}}, d.intent.Elsewhere...) {
		for _, n := range tree.Nodes {
			if block := n.Addr.Block(); !d.asked[block] {
				d.asked[block] = targets.scope(excludes, n.Addr)
			}
		}
	}
}

// asksFor reports whether an output is planned, see [Options].
func (d *selection) asksFor(o Output) bool {
	if !d.p.Targeted {
		return true
	}
	return (len(o.From) > 0 || len(d.opts.Targets) == 0) && !slices.ContainsFunc(o.From, func(block Addr) bool { return !d.asked[block] })
}

// scope reports whether an address is among the targets, if there are any, and not excluded.
func (g *globs) scope(excludes *globs, addrs ...Addr) bool {
	in, out := len(g.patterns) == 0 || g.match(addrs...), excludes.match(addrs...) // both note what they match
	return in && !out
}

// limitChanges selects what was asked for, adds what that needs, removes what was excluded and
// what needs it, and changes nothing else. An exclusion is stronger than a target.
//
// A node that is left out and exists stays in the plan as a NoOp; one that does not exist, or is not ours yet, leaves the plan. Problems are kept or dropped with
// their nodes. A problem without a path concerns the whole plan and stays, as does one of an address
// that is planned. If its node has no change, because it is in the way of one or was declared wrongly,
// its address decides.
func (d *selection) limitChanges(targets, excludes *globs) {
	in, out := map[string]bool{}, map[string]bool{} // by path
	for c := range d.p.Each() {
		names := d.names(c)
		in[c.Path] = len(d.opts.Targets) == 0 || targets.match(names...)
		out[c.Path] = excludes.match(names...)
	}
	required := d.requirements()
	spread(in, required, 0, 1)
	spread(out, required, 1, 0)
	var kept []Change
	dropped := map[string]bool{}
	wanted := map[Addr]bool{} // addresses of what is planned, and of what that is created in
	for _, c := range d.p.Changes {
		if in[c.Path] && !out[c.Path] {
			at := kind.ParentPath(c.Path)
			if _, planned := in[at]; !planned && c.Before == nil && d.want[at] != nil {
				wanted[d.want[at].Addr] = true // its problem is the reason why nothing is planned for it
			}
			for _, name := range d.names(&c) {
				wanted[name] = true
			}
			d.asked[c.Addr.Block()] = true
			kept = append(kept, c)
			continue
		}
		dropped[c.Path] = true
		if c.Before == nil {
			continue
		}
		// A node that would have been imported is not this stack's, and does not belong in its plan.
		if c.Importing == "" || c.Before.Payload.Owner.Stack == d.p.Stack {
			c.leave()
			kept = append(kept, c)
		}
	}
	d.p.Changes = kept
	unplanned := func(q Problem) bool {
		if q.Path == "" || wanted[q.Addr] {
			return false
		}
		if _, planned := in[q.Path]; planned {
			return dropped[q.Path]
		}
		return !targets.scope(excludes, q.Addr)
	}
	d.p.Problems = slices.DeleteFunc(d.p.Problems, unplanned)
}

// names are the addresses under which a change may be asked for. What goes has that of the declaration that continues it, too.
func (d *selection) names(c *Change) []Addr {
	names := []Addr{c.Addr}
	if c.PreviousAddr != "" {
		names = append(names, c.PreviousAddr)
	}
	if c.Action == Delete {
		if to := d.elsewhere(c.Before); to != nil {
			names = append(names, to.Addr)
		}
	}
	return names
}

// requirements are pairs of paths: the change of the first cannot be made without that of the second. A namespace is
// deleted only with its contents.
func (d *selection) requirements() (out [][2]string) {
	byPath := d.byPath()
	for c := range d.p.Each() {
		for _, p := range d.needs(c, byPath) {
			out = append(out, [2]string{c.Path, p})
		}
		for p := kind.ParentPath(c.Path); p != "/" && c.Before != nil; p = kind.ParentPath(p) {
			if o := byPath[p]; o != nil && (o.Action == Delete || o.Action == Replace) {
				out = append(out, [2]string{p, c.Path})
			}
		}
	}
	return out
}

// spread adds the other end of each pair of which one end is in the set, until nothing is added: a namespace may be inside
// another, and a lock that is deleted with it may be created at another path. Each round adds at least one path, or is the last.
func spread(set map[string]bool, pairs [][2]string, from, to int) {
	for changed := true; changed; {
		changed = false
		for _, pair := range pairs {
			if set[pair[from]] && !set[pair[to]] {
				set[pair[to]], changed = true, true
			}
		}
	}
}

// needs returns the paths of the changes without which c cannot be made.
func (d *selection) needs(c *Change, byPath map[string]*Change) (out []string) {
	// What is created or taken over needs a namespace of ours around it.
	arrives := c.Before == nil || c.Importing != ""
	if p := byPath[kind.ParentPath(c.Path)]; p != nil && arrives && (p.Action == Create || p.Action == Replace || p.Importing != "") {
		out = append(out, p.Path)
	}
	return append(out, c.tied()...)
}

func (d *decisions) byPath() map[string]*Change {
	m := make(map[string]*Change, len(d.p.Changes))
	for c := range d.p.Each() {
		m[c.Path] = c
	}
	return m
}
