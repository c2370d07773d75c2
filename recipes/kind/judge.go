package kind

// Seen is a contender, with its session and the data of its node.
type Seen struct {
	Contender
	Session int64  // the session that owns the node; 0 if the node was not read, or belongs to no session
	Data    []byte // nil if the node was not read
}

// Verdict says whether a contender holds, and for how many permits its node stands.
type Verdict struct {
	Holds bool
	// The permits that its node stands for; 0 if the kind has none, if the number is not known, or if another node of the same client has
	// the number.
	Permits int
}

// Judge finds the holders by the kind's own rule. A contender also keeps a permit that it was granted before the number of
// permits was lowered. The parameter lines has the contenders of each queue, sorted by [SortContenders], without contenders that
// have gone. If params is nil, nothing is declared. Then the number of permits is not known, and each contender with a permit
// holds.
func (k *Kind) Judge(params Params, lines [][]Seen) [][]Verdict {
	gated := map[int64]bool{} // sessions with a contender at the gate (see [Queue])
	for i, q := range k.Queues {
		for _, c := range lines[i] {
			gated[c.Session] = gated[c.Session] || q.Gate && c.Session != 0
		}
	}
	declared := params != nil
	if !declared {
		params = k.New()
	}
	out := make([][]Verdict, len(lines))
	for at, q := range k.Queues {
		queue := make([]Contender, len(lines[at]))
		for i, c := range lines[at] {
			queue[i] = c.Contender
		}
		for i, c := range lines[at] {
			admitted, _ := q.Admit(params, queue, i)
			v := Verdict{Holds: !q.Gate && admitted}
			if k.Permits != nil {
				v.Holds = v.Holds || !q.Gate && (!declared || !c.isTentative(i, gated))
				v.Permits = c.permits(q.Gate, v.Holds, gated)
			}
			out[at] = append(out[at], v)
		}
	}
	return out
}

// isTentative reports whether the permit at place i, beyond the present limit, was created but not granted. Our contenders record
// the limit at their creation. The number of contenders before them never grows. So if a permit still has at least as many others before it
// as its recorded limit, it was never granted. Curator's clients create their permits while they are still at the gate, and leave
// the gate when they are granted.
func (c Seen) isTentative(i int, gated map[int64]bool) bool {
	if h, ok := ParseHolder(c.Data); ok && (h.Limit > 0 || h.Held != nil) {
		return h.Held == nil && i >= h.Limit
	}
	return gated[c.Session]
}

// permits is the number of permits that a node stands for. A node below "leases" is one permit. A node at the gate waits for as
// many permits as its data say, or for one if its client writes no number. The number is not known (0) if its data are empty, or
// only ask for revocation. Permits that are not granted yet do not count while their client is at the gate: its node there has
// the number.
func (c Seen) permits(gate, holds bool, gated map[int64]bool) int {
	h, ours := ParseHolder(c.Data)
	switch {
	case gate && (len(c.Data) == 0 || string(c.Data) == RevokeMessage), !gate && !holds && gated[c.Session]:
		return 0
	case gate && ours:
		return max(1, h.Permits)
	}
	return 1
}
