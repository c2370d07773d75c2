// Package wait decides whether a place in a queue is granted, waits until it is, and proves the grant.
//
//	place, err := opened.Entry(handle.Entrance()) // the nodes to create
//	w := place.Waiter()
//	defer w.End()
//	grant, err := w.Reach(ctx, listings)
//
// [Opened] is a lock whose declaration is read. A [Place] has the nodes of a call in one queue, and a [Verdict] is what a listing
// says about them. A place can be inherited: another goroutine of this client, the owner of the turn before us, created it. A
// waiter watches its predecessor and, in a short queue, the contender ahead of the predecessor. So the release of a mutex sends
// events to at most two waiters: the next holder, and the waiter behind the next holder. The method prove of a waiter makes its
// [Grant]; the comment there is the proof of exclusion. Package lock makes the Grants of direct permits and of sets: see atOnce
// and confirm there.
//
// A call for permits of a semaphore goes this way:
//
//  1. Package lock first creates the permits directly, as nodes below "leases". If one of them is beyond the limit, or another
//     call waits at the gate, package lock deletes all of them.
//  2. Then one node waits at the gate, the queue below "locks", for all permits of the call. The call watches the predecessor of
//     this node (Reach).
//  3. The first at the gate watches the permits until enough are free (serve).
//  4. One transaction deletes its node at the gate and creates its permits (take). The new permits then wait until the older
//     permits that other clients created directly are gone.
//
// The package creates and deletes no node, except that it exchanges a place at the gate for permits, in one transaction. It knows
// no other goroutines of this client.
package wait
