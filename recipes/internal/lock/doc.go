// Package lock takes a lock, or several in one transaction, for one call of a program.
//
//	call := client.NewCall(ctx, false, false, caller, lock.Member{Handle: handle})
//	defer call.End()
//	use, err := call.Do(ctx)
//
// A [Call] passes these steps: a turn among the goroutines of this client (package turn), the declaration (declare), nodes in the queues
// (znode), the wait and its proof (wait), a lock that is held (held). Permits of a semaphore are first tried without a turn (permits.go);
// a set takes its turns and its nodes at once (sets.go).
//
// [Client] has what the calls of one client share, [SessionState] what they share in one session, and a [Handle] what does not change from
// one call of a program to the next. The caller is told of each step through an interface, and makes the errors.
//
// A call that fails leaves no node behind: what it created is deleted, in the background if it must be, before the next goroutine of the
// client gets its turn.
package lock
