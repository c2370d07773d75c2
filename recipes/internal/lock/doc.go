// Package lock takes a lock, or several in one transaction, for one call of a program.
//
//	call := client.NewCall(ctx, false, false, caller, lock.Member{Handle: handle})
//	defer call.End()
//	use, err := call.Do(ctx)
//
// A [Call] passes these steps: its turn among the goroutines of this client (package turn), the declaration (declare), nodes in the
// queues (znode), the wait and its proof (wait), the held lock (held). A call for permits first tries without a turn (permits.go). A
// set takes all its turns at one moment, and its nodes in one transaction (sets.go).
//
// The words of these packages:
//
//   - ticket: the turns of one call, one turn for each lock that the call takes. The goroutines of this client take turns at each
//     lock.
//   - place: the node of a call in a queue; among permits, the nodes of all its permits.
//   - gate: the queue below "locks" of a semaphore, in which callers wait. It holds nothing.
//   - permit: a node below "leases" of a semaphore. It counts from its creation.
//   - grant: places whose admission is proven.
//   - use: a held lock as one caller has it; programs see it as a Lease. A caller that enters the lock again has a use of its own.
//
// [Client] has what the calls of one client share, [SessionState] what they share in one session, and a [Handle] what does not change
// between calls. With the call, a caller passes an interface that receives each step and makes the errors.
//
// A call that fails leaves no node behind. Its nodes are deleted, in the background if necessary, before the next goroutine of the
// client gets its turn.
package lock
