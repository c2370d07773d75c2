// Package tx turns a plan into transactions of a bounded size: the operations in their order, the record that each of them writes,
// and the access lists that are set after it.
//
// It relies on the plan alone, so that the number and size of the transactions are known before an apply. It sends nothing, and never
// changes an action: whatever it is given is what it writes. After each transaction a lock exists completely or not at all.
//
// [Each] is the way in. It calls a function for each [Transaction] in turn. If the servers find a transaction too long, it cuts
// this one again. [Measure] goes through them without a server and notes their sizes in the plan.
//
//	err := tx.Each(p, applyID, indexACL, func(batch *tx.Transaction) error {
//		return send(batch.Ops)
//	})
//
// batch.go cuts, and finds what must not be divided. ops.go writes the operations of a change, of the record and of the
// apply lock. Its tests are those of package diff, which has the model of a server.
package tx
