package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Certificate is a certificate that an encrypted connection depends on: ours, the server's, or that of an authority that signed one of
// these.
type Certificate = session.Certificate

// A certificate that expires within noticeOfExpiry is a finding.
const noticeOfExpiry = 14 * 24 * time.Hour

// Certificates judges the certificates of a connection, such as those of a snapshot: whether one of them expires within 14 days.
func Certificates(all []Certificate, now time.Time) Condition {
	k := Condition{Name: "certificates", Why: "an open connection outlives its certificates, but no new connection can be made after one has expired: a client that is disconnected then loses its session and its locks"}
	var first *Certificate
	var soon []string
	for i, c := range all {
		if first == nil || c.Expires.Before(first.Expires) {
			first = &all[i]
		}
		if left := c.Expires.Sub(now); left <= noticeOfExpiry {
			soon = append(soon, expiry(c, left))
			if left <= 0 {
				k.Verdict = Fails
			}
		}
	}
	switch {
	case first == nil:
		k.Verdict, k.What = Unsure, "the server did not ask for our certificate, and its own is not verified here"
		k.Next = "verify the servers' certificates: do not set InsecureSkipVerify"
	case len(soon) == 0:
		k.What = "the first: " + expiry(*first, first.Expires.Sub(now))
	default:
		k.Verdict = max(k.Verdict, Unsure)
		k.What = strings.Join(soon, "; ")
		k.Next = "replace it; clients that read their files again for each connection, as locktree's commands do, need no restart"
	}
	return k
}

func expiry(c Certificate, left time.Duration) string {
	whose := "the server's"
	if c.Ours {
		whose = "ours"
	}
	when := fmt.Sprintf("expires on %s, in %s", c.Expires.UTC().Format(time.RFC3339), days(left.Seconds()))
	if left <= 0 {
		when = "expired on " + c.Expires.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s (%s) %s", kind.Visible(c.Subject), whose, when)
}
