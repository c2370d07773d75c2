// Package wait decides whether a place in a queue is granted, waits until it is, and proves the grant.
//
//	place, err := opened.Entry(handle.Entrance()) // the nodes to create
//	w := place.Waiter()
//	defer w.End()
//	grant, err := w.Reach(ctx, listings)
//
// [Opened] is a lock whose declaration is read, a [Place] our nodes in its queue, and a [Verdict] what a listing says of them. A waiter
// watches its predecessor and not the queue, so a release wakes one waiter. The only way to a [Grant] is waiter.prove, whose comment is the
// proof of exclusion.
//
// The package creates and deletes no node, except for a semaphore: the place at the gate is exchanged for permits in one transaction. It
// knows no goroutine of this client but the one that waits.
package wait
