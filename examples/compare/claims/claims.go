//go:build linux

package claims

import (
	"fmt"
	"io"
	"strings"
)

// Results of all experiments.
type Results struct {
	Herd []Release `json:"herd,omitempty"`
}

// Write renders them.
func (r *Results) Write(w io.Writer) {
	if len(r.Herd) > 0 {
		fmt.Fprint(w, "\n## Claim: where all who wait watch the same node, a release wakes them all\n\n", herdTable(r.Herd))
	}
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
