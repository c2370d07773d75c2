package tx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Measure fills in the statistics. If a declaration cannot be encoded, that is a problem already and
// there is nothing to measure.
//
// What is not known yet is replaced: the id by one of the same length; the access list of new nodes of
// the record, if none is declared and the connection decides, by the longer of the two possible ones.
func Measure(p *plan.Plan) {
	own := kind.WorldAll()
	if p.Set != nil {
		own = p.Set.List()
	}
	var each []plan.Stats
	lists := len(p.ACLSteps())
	for c := range p.Each() {
		if c.FormerLists != nil {
			n, _ := c.FormerKeys()
			lists += n
		}
	}
	err := Each(p, strings.Repeat("0", ApplyIDLen), own, func(tx *Transaction) error {
		s := plan.Stats{Ops: len(tx.Ops), Bytes: Size(tx.Ops)}
		if s.Bytes > MaxTransaction {
			tooLong(p, tx, s)
			return ErrTooLong
		}
		each = append(each, s)
		lists += len(tx.ACLSteps())
		return nil
	})
	if err != nil || len(each) == 0 {
		return
	}
	// If a transaction was too long and cutting it helped, drop the problem noted on the way.
	p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == plan.ProblemBudget })
	for _, s := range each {
		p.Transaction.Ops += s.Ops
		p.Transaction.Bytes += s.Bytes
	}
	p.Transaction.ACLPhase = lists
	if len(each) > 1 {
		p.Batches = each
		p.Batches[len(each)-1].ACLPhase = p.Transaction.ACLPhase
	}
}

// tooLong notes a change for which no transaction is large enough. It replaces an earlier note: the
// last one counts, if no smaller transactions are accepted either. Outputs that are too long are a problem already.
func tooLong(p *plan.Plan, tx *Transaction, s plan.Stats) {
	if slices.ContainsFunc(p.Problems, func(q plan.Problem) bool { return q.Code == plan.ProblemOutputs }) {
		return
	}
	q := plan.Problem{
		Severity: plan.Error, Code: plan.ProblemBudget, Summary: "Change is too large for a transaction",
		Detail: fmt.Sprintf("It takes %d operations with %d bytes in one transaction, and the limit is %d bytes: a ZooKeeper server drops the connection "+
			"at 1 MiB. Shorten the declaration, most often an access list.", s.Ops, s.Bytes, MaxTransaction),
	}
	if len(tx.Changes) > 0 {
		q.Addr, q.Path = tx.Changes[0].Addr, tx.Changes[0].Path
		if n := tx.Changes[0].After; n != nil {
			q.Origin = n.Origin
		}
	}
	p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == plan.ProblemBudget })
	p.Problems = slices.Insert(p.Problems, 0, q)
}

// Size returns the length of a transaction on the wire, by the encoding of
// ZooKeeper's jute records (MultiOperationRecord, CreateRequest and so on):
// strings, buffers and lists carry a length of 4 bytes, every operation and the
// end a header of 9, the request a length and a header of 12.
func Size(ops []Op) int {
	const request = 12
	return request + header + payload(ops)
}

// payload is the size of the operations without the transaction's own header.
func payload(ops []Op) (n int) {
	for _, op := range ops {
		n += header + 4 + len(op.Path) + 4
		switch op.Kind {
		case OpCreate:
			n += 4 + len(op.Data) + 4
			for _, a := range op.ACL {
				n += 4 + 4 + len(a.Scheme) + 4 + len(a.ID)
			}
		case OpSet:
			n += 4 + len(op.Data)
		}
	}
	return n
}

const header = 9
