package view

import (
	"fmt"
	"maps"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// deadlocks go to standard output: status is asked for them.
func (h *Human) deadlocks(w *inspect.Waits) {
	for _, line := range deadlockLines(w) {
		h.out.printf("%s\n", h.out.paint(red)(line))
	}
}

// deadlockLines are a line for each deadlock.
func deadlockLines(w *inspect.Waits) (lines []string) {
	for _, d := range w.Deadlocks {
		lines = append(lines, clean(d.String()))
	}
	return lines
}

func (l Locks) text(h *Human) {
	for i, e := range l.Ensembles {
		if i > 0 {
			h.out.printf("\n")
		}
		h.out.printf("%s  %s\n", h.out.paint(bold)(e.Ensemble), e.Addresses)
		if len(e.Locks) == 0 {
			h.out.printf("\nThere are no locks at or below %s.\n", clean(e.Path))
		}
		for _, in := range e.Locks {
			h.out.printf("\n%s  %s\n", h.out.paint(bold)(clean(in.Path)), declaredAs(in))
			w := tabwriter.NewWriter(h.out, 0, 0, 2, ' ', 0)
			if !inUse(in) {
				fmt.Fprintf(w, "  idle\n")
			}
			writeQueue(w, "  ", in, l.NowMs, func(c recipes.Contender) string { return e.about(c, l.NowMs) })
			_ = w.Flush()
		}
		h.out.printf("\n")
		if e.Cut || e.Pending > 0 {
			h.out.printf("Not all nodes below %s were looked at. Give a longer path.\n", clean(e.Path))
		}
		h.out.printf("%s%s.\n", tally(e.Locks), notSeen(0, len(e.Closed())))
		if words := e.Forbidden(); len(words) > 0 && len(e.Locks) > 0 {
			h.out.printf("Where clients connect from, and who is cut off, is not shown: some server does not allow the four-letter words. Add %s to 4lw.commands.whitelist.\n", strings.Join(words, " and "))
		}
		h.deadlocks(e.Waits)
	}
}

// declaredAs says what the lock is, and where that is declared.
func declaredAs(in *inspect.Report) string {
	if in.Payload == nil {
		return in.Kind.Name + ", not declared: recognised by its contenders"
	}
	text := fmt.Sprintf("%s, %s of stack %s", in.Kind.Name, clean(in.Payload.Owner.Addr), clean(in.Payload.Owner.Stack))
	if in.Payload.State != kind.StateActive {
		text += ", " + string(in.Payload.State)
	}
	return text
}

// about is what is known of a contender, whichever client wrote it.
func (e LocksOf) about(c recipes.Contender, nowMs int64) string {
	where := process(c)
	if where == clean(c.ID) { // as a client calls itself unless it is told otherwise
		where = ""
	}
	cols := []string{"", where, c.Writer + " format", fmt.Sprintf("token %d", c.Token), "", waited(c, nowMs), ""}
	switch {
	case c.Session != 0:
		cols[4] = "session " + sessionText(c.Session)
	case c.Token != 0:
		cols[6] = "belongs to no session: it stays until somebody deletes it"
	}
	if s := e.Sessions[c.Session]; s != nil {
		if s.Address != "" {
			cols[1] = strings.TrimSpace(cols[1] + " " + clean(s.Address))
		}
		cols[6] = Away(s, e.At)
	}
	return strings.TrimRight(strings.Join(cols, "\t"), "\t")
}

// Away says that the client is cut off or silent, and when its session ends, unless it comes back; "" where neither is so. Every
// client looks for another server when it has had no answer for two thirds of its session's timeout. One that is silent for
// longer is stopped, or its machine is, while its connection stays.
func Away(s *inspect.Session, at time.Time) string {
	text := "not connected"
	switch {
	case s.Away:
	case s.Timeout > 0 && s.Silent > s.Timeout*2/3:
		text = fmt.Sprintf("silent for %s", s.Silent.Round(time.Second))
	default:
		return ""
	}
	if s.Expires.IsZero() {
		return text
	}
	return fmt.Sprintf("%s; its place is free in about %s unless it comes back", text, max(0, s.Expires.Sub(at)).Round(time.Second))
}

// process is where the contender runs, if it says so.
func process(c recipes.Contender) string {
	switch {
	case c.Host == "":
		return ""
	case c.PID == 0:
		return clean(c.Host)
	}
	return fmt.Sprintf("%s/%d", clean(c.Host), c.PID)
}

func (l Locks) document(string) any {
	ensembles := []fields{}
	for _, e := range l.Ensembles {
		locks := []fields{}
		for _, in := range e.Locks {
			f := fields{"path": in.Path, "type": in.Kind.Name, "declared": in.Payload != nil, "foreign": nonNil(in.Junk),
				"holders": e.contenders(in.Holders), "waiters": e.contenders(in.Waiters)}
			if in.Payload != nil {
				f["address"], f["stack"], f["state"] = in.Payload.Owner.Addr, in.Payload.Owner.Stack, string(in.Payload.State)
				addDeclared(f, in, l.NowMs)
			}
			locks = append(locks, f)
		}
		f := fields{"ensemble": e.Ensemble, "servers": e.Addresses, "path": e.Path, "locks": locks, "closed": nonNil(e.Closed()), "cut": e.Cut || e.Pending > 0,
			"zxid": e.Zxid, "words_forbidden": nonNil(e.Forbidden())}
		maps.Copy(f, waitsJSON(e.Waits))
		ensembles = append(ensembles, f)
	}
	return statusJSON(l.NowMs, ensembles)
}

// contenders are those of contendersJSON, with what the nodes themselves and the servers tell of their sessions.
func (e LocksOf) contenders(cs []recipes.Contender) []fields {
	out := contendersJSON(cs)
	for i, c := range cs {
		out[i]["node"], out[i]["format"], out[i]["revoked"], out[i]["token"], out[i]["position"] = c.Path, c.Writer, c.Revoked, c.Token, i+1
		if !c.Held.IsZero() {
			out[i]["held"] = c.Held.UTC().Format(time.RFC3339Nano)
		}
		s := e.Sessions[c.Session]
		if s == nil {
			continue
		}
		out[i]["connected"] = !s.Away
		if s.Address != "" {
			out[i]["client_address"] = s.Address
		}
		if !s.Expires.IsZero() {
			out[i]["session_expires"] = s.Expires.UTC().Format(time.RFC3339Nano)
		}
	}
	return out
}

// contendersJSON are contenders as a tree has them.
func contendersJSON(cs []recipes.Contender) []fields {
	out := []fields{}
	for _, c := range cs {
		f := fields{"node": c.Name, "id": c.ID, "shared": c.Shared}
		if c.Token != 0 {
			f["token"] = c.Token
		}
		if c.Session != 0 {
			f["session"] = sessionText(c.Session)
		}
		if c.Permits != 0 {
			f["permits"] = c.Permits
		}
		if c.Retains != 0 {
			f["retain_ms"] = c.Retains.Milliseconds()
		}
		if c.Host != "" {
			f["host"] = c.Host
		}
		if c.PID != 0 {
			f["pid"] = c.PID
		}
		if !c.Since.IsZero() {
			f["since"] = c.Since.UTC().Format(time.RFC3339Nano)
		}
		out = append(out, f)
	}
	return out
}

// waitsJSON is the wait-for graph: nodes are contenders' paths.
func waitsJSON(w *inspect.Waits) fields {
	waits, deadlocks := []fields{}, []fields{}
	paths := func(cs []recipes.Contender) []string {
		out := []string{}
		for _, c := range cs {
			out = append(out, c.Path)
		}
		return out
	}
	for _, e := range w.All {
		waits = append(waits, fields{"lock": e.Lock, "waiter": e.Waiter.Path, "holders": paths(e.Held), "ahead": paths(e.Behind), "any": e.Any})
	}
	for _, d := range w.Deadlocks {
		steps := []fields{}
		for _, s := range d {
			steps = append(steps, fields{"who": s.Who, "session": sessionText(s.Owner), "holds": s.Holds, "ahead": s.Ahead, "waits": s.Waits})
		}
		deadlocks = append(deadlocks, fields{"text": d.String(), "steps": steps})
	}
	return fields{"waits": waits, "deadlocks": deadlocks}
}
