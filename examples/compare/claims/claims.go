//go:build linux

package claims

import (
	"fmt"
	"io"
	"strings"
)

// Results of all experiments.
type Results struct {
	Herd   []Release `json:"herd,omitempty"`
	Paused []Pause   `json:"paused,omitempty"`
}

// Write renders them.
func (r *Results) Write(w io.Writer) {
	if len(r.Herd) > 0 {
		fmt.Fprint(w, "\n## Claim: where all who wait watch the same node, a release wakes them all\n\n", herdTable(r.Herd))
	}
	if len(r.Paused) > 0 {
		fmt.Fprint(w, "\n## Claim: a lock that expires can be held twice\n\n",
			"A holder is stopped for longer than the lock may outlive it, and goes on. Of its writes after a rival's grant, the first ",
			enough, " are counted, or those until it learns that the lock is lost.\n\n", pausedTable(r.Paused))
	}
}

func pausedTable(all []Pause) string {
	var b strings.Builder
	b.WriteString("| | a rival has the lock | the holder is told | stale writes taken | taken by a store that checks tokens |\n|---|---|---|---|---|\n")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, p := range all {
		switch {
		case p.Missing != "":
			fmt.Fprintf(&b, "| %s | not measured: %s | | | |\n", p.System, p.Missing)
		case !p.Rival:
			fmt.Fprintf(&b, "| %s | no: all wait for as long as the holder stands still | – | 0 | 0 |\n", p.System)
		case !p.Token:
			fmt.Fprintf(&b, "| %s | yes | %s | %d | there are no tokens |\n", p.System, yes[p.Told], p.Stale)
		default:
			fmt.Fprintf(&b, "| %s | yes | %s | %d | %d |\n", p.System, yes[p.Told], p.Stale, p.Fenced)
		}
	}
	return b.String()
}

func herdTable(all []Release) string {
	var b strings.Builder
	b.WriteString("| clients that wait | | wake-ups a release | requests | bytes to and fro |\n|---|---|---|---|---|\n")
	for _, r := range all {
		if r.Missing != "" {
			fmt.Fprintf(&b, "| %d | %s | not measured: %s | | |\n", r.Waiters, r.System, r.Missing)
			continue
		}
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %d |\n", r.Waiters, r.System, r.Events, r.Requests, r.Bytes)
	}
	return b.String()
}
