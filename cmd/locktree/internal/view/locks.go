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
		if e.Snapshot == nil {
			h.unknown(e.Ensemble, e.Addresses, e.Error)
			continue
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
		if e.Pending > 0 {
			h.out.printf("%s below %s %s not looked at, because the requests of -reads were used up. Give more, 0 for no limit, or a longer path.\n", Plural(e.Pending, "node"), clean(e.Path), plural(e.Pending, "was", "were"))
		}
		if e.Cut {
			h.out.printf("There are more than 100,000 nodes below %s, or paths longer than 4,096 bytes, and some were not looked at. Give a longer path.\n", clean(e.Path))
		}
		h.out.printf("%s%s.\n", tally(e.Locks), notSeen(0, len(e.Closed())))
		if text := Unasked(e.Snapshot); text != "" && len(e.Locks) > 0 {
			h.out.printf("It is not known of all clients whether, and from where, they are connected. %s\n", text)
		}
		h.deadlocks(e.Waits)
	}
}

// Unasked says which servers did not tell who is connected to them, and why; "" if all did.
func Unasked(snap *inspect.Snapshot) string {
	var parts []string
	if words := snap.Forbidden(); len(words) > 0 {
		parts = append(parts, fmt.Sprintf("Some server does not allow the four-letter words: add %s to 4lw.commands.whitelist.", strings.Join(words, " and ")))
	}
	var others []string
	for _, u := range snap.Unasked {
		if !u.Forbids {
			others = append(others, clean(u.Server)+" ("+clean(u.Why)+")")
		}
	}
	if len(others) > 0 {
		parts = append(parts, "Not told by "+FirstFew(others)+".")
	}
	return strings.Join(parts, " ")
}

// declaredAs says what the lock is, and where that is declared.
func declaredAs(in *inspect.Report) string {
	if in.Payload == nil {
		return in.Kind.Name + ", not declared: recognised by its contenders"
	}
	text := in.Kind.Name + ", declared by no stack"
	if owner := in.Payload.Owner; owner.Stack != "" {
		text = fmt.Sprintf("%s, %s of stack %s", in.Kind.Name, clean(owner.Addr), clean(owner.Stack))
	}
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

// Away says that the client is cut off or silent, and when its session ends; "" where neither is known. What the leader has not
// heard is certain, wherever the client is connected. Every client looks for another server when it has had no answer for two
// thirds of its session's timeout. One that is silent for longer is stopped, or its machine is, while its connection may stay. That
// no server lists its connection comes earlier, and is less: see inspect.Session.
func Away(s *inspect.Session, at time.Time) string {
	left := max(0, s.Expires.Sub(at)).Round(time.Second)
	switch silent := s.Timeout > 0 && s.Silent > s.Timeout*2/3; {
	case silent:
		return fmt.Sprintf("silent for %s; its place is free in about %s unless it comes back", s.Silent.Round(time.Second), left)
	case s.Away && s.Expires.IsZero():
		return "connected to no server that was asked"
	case s.Away:
		return fmt.Sprintf("connected to no server that was asked; if it is gone, its place is free in about %s", left)
	}
	return ""
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

func (l Locks) json(m *machine) {
	ensembles := []fields{}
	for _, e := range l.Ensembles {
		f := fields{"ensemble": e.Ensemble, "servers": e.Addresses, "path": e.Path}
		if e.Error != "" {
			f["error"] = e.Error
		}
		if e.Compared != nil {
			maps.Copy(f, e.Compared.fields())
		}
		if e.Snapshot != nil {
			maps.Copy(f, e.looked(l.NowMs))
		}
		ensembles = append(ensembles, f)
	}
	out := statusJSON(l.NowMs, ensembles)
	if s := l.Source; s != nil {
		out["configuration"] = fields{"path": s.Path, "fingerprint": s.Fingerprint, "read": s.Read.UTC().Format(time.RFC3339Nano), "error": s.Error}
	}
	m.document(out)
}

// looked is what a look found.
func (e LocksOf) looked(nowMs int64) fields {
	locks := []fields{}
	for _, in := range e.Locks {
		f := fields{"path": in.Path, "type": in.Kind.Name, "declared": in.Payload != nil, "foreign": nonNil(in.Junk),
			"holders": e.contenders(in.Holders), "waiters": e.contenders(in.Waiters)}
		if in.Payload != nil {
			f["address"], f["stack"], f["state"] = in.Payload.Owner.Addr, in.Payload.Owner.Stack, string(in.Payload.State)
			addDeclared(f, in, nowMs)
		}
		locks = append(locks, f)
	}
	missing := []string{}
	for _, u := range e.Unread {
		if u.Missing() {
			missing = append(missing, u.Path)
		}
	}
	f := fields{"locks": locks, "closed": nonNil(e.Closed()), "missing": missing, "cut": e.Cut || e.Pending > 0, "at": e.At.UTC().Format(time.RFC3339Nano),
		"zxid": e.Zxid, "words_forbidden": nonNil(e.Forbidden()), "not_asked": unaskedJSON(e.Snapshot)}
	maps.Copy(f, waitsJSON(e.Waits))
	return f
}

// fields say how the ensemble differs from a configuration; without changes as long as that is not known.
func (c *Compared) fields() fields {
	f := fields{"root": c.Root, "stack": c.Stack}
	if c.Drift != nil {
		n := c.Drift.Summary()
		f["changes"] = fields{"add": n.Add, "change": n.Change, "remove": n.Destroy}
		f["compared"], f["compared_with"] = c.At.UTC().Format(time.RFC3339Nano), c.Fingerprint
	}
	return f
}

func unaskedJSON(snap *inspect.Snapshot) []fields {
	out := []fields{}
	for _, u := range snap.Unasked {
		out = append(out, fields{"server": u.Server, "reason": u.Why})
	}
	return out
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
		switch {
		case s.Address != "":
			out[i]["connected"], out[i]["client_address"] = true, s.Address
		case s.Away:
			out[i]["connected"] = false
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
