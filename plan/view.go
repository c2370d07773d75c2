package plan

import (
	"fmt"
	"strings"
)

// Texts of trees and plans, for logs and tests. They hide the hashes of digests, so values of this package are
// safe to print.

// String writes "digest:payments:crd -> digest:payments:cdrwa".
func (d ACLDiff) String() string { return d.Before.String() + " -> " + d.After.String() }

// String writes "mutex namespace.payments.mutex.ledger at /locks/payments/ledger".
func (n *Node) String() string { return fmt.Sprintf("%s %s at %s", n.Kind(), n.Addr, n.Path) }

// String writes one line: "~ namespace.a.semaphore.b permits=3 -> 5".
func (c *Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", c.Action.Symbol(), c.Addr)
	if c.PreviousAddr != "" {
		fmt.Fprintf(&b, " (was %s)", c.PreviousAddr)
	}
	for _, p := range c.Params {
		fmt.Fprintf(&b, " %s=%v -> %v", p.Name, p.Before, p.After)
	}
	if c.ACL != nil {
		fmt.Fprintf(&b, " acl=%s", c.ACL)
	}
	if c.ChildACL != nil {
		fmt.Fprintf(&b, " child_acl=%s", c.ChildACL)
	}
	if c.Protect != nil {
		fmt.Fprintf(&b, " protect=%t -> %t", c.Protect.Before, c.Protect.After)
	}
	return b.String()
}

// String writes one line for every problem and every change but NoOp, for logs
// and tests. People are shown more by the command.
func (p *Plan) String() string {
	var b strings.Builder
	for _, q := range p.Problems {
		fmt.Fprintf(&b, "%s: %s: %s\n", q.Severity, q.Summary, q.Path)
	}
	for c := range p.Each() {
		if c.Action != NoOp {
			b.WriteString(c.String() + "\n")
		}
	}
	for _, c := range p.Access {
		fmt.Fprintf(&b, "~ %s %s acl=%s\n", c.Addr, c.Pin.Path, c.ACLDiff)
	}
	return b.String()
}
