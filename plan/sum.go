package plan

import (
	"strings"

	"github.com/locktree/locktree/plan/record"
)

// Keyed is the plan with a key for the sums that it writes, if the stack has none yet. The key must be random, of [record.KeyLen] digits.
func (p *Plan) Keyed(fresh string) *Plan {
	q := *p
	if q.prior.Key == "" {
		q.prior.Key, q.prior.Fresh = fresh, true
	}
	return &q
}

// key is that of the sums that the plan writes: of a plan that is only measured, one of the same length.
func (p *Plan) key() string {
	if p.prior.Key == "" {
		return strings.Repeat("0", record.KeyLen)
	}
	return p.prior.Key
}

// mark is the data of a node as the plan leaves it. A node of no stack has no sum, nor has one whose list is hidden from us: what
// the plan says of that was never compared.
func (p *Plan) mark(c *Change) ([]byte, error) {
	marked := *c.After.Payload
	marked.Sum = ""
	if marked.Owner.Stack != "" && !c.Hides() {
		var err error
		if marked.Sum, err = record.Sum(p.key(), c.After.Path, c.After.Payload, c.After.ACL); err != nil {
			return nil, err
		}
	}
	return marked.Encode()
}

// Hides reports whether the node has a list afterwards that was not shown to us in full: it stays, or was taken over.
func (c *Change) Hides() bool {
	stays := c.Before != nil && c.Action != Create && !c.anew() && c.Before.ACL.Equal(c.After.ACL)
	return c.After.ACL.Masked() || stays && c.Before.ACL.Masked()
}

// Unmarked reports whether the ensemble was found without an id, where an apply had been.
func (p *Plan) Unmarked() bool { return p.prior.Unmarked }
