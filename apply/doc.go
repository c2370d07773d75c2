// Package apply reads the live tree of a stack and carries out a plan.
//
// # What an apply promises
//
// The structure, the parameters, the access lists of new nodes, the quotas and the
// index change in one ZooKeeper transaction: all or nothing. Plans that do not fit
// into one are cut into several, each of which leaves whole locks and its part of
// the index; an apply that ends between two is finished by the next. Servers that
// read less than ZooKeeper's default (jute.maxbuffer) get smaller ones, down to one
// lock with its part of the index: 80,000 bytes are enough for some thousand locks. A
// transaction is taken for too long only when a harmless request of its length ends the
// connection, too, and short ones do not. It is sent only when every node the plan
// relied on is still as the plan saw it, and it is fenced: its first operation checks
// the apply lock, so that a program that was paused past its session commits nothing. A
// lost reply is resolved by reading back the apply id the transaction writes, or, where
// a destroy leaves no index, the count of destroys; never guessed.
//
// It writes no node without this stack's marker but what an import block names, and
// deletes no node that has children: a lock with a holder or a waiter makes the
// transaction fail as a whole, whenever the contender arrived. Locks that are
// broken by force, each by its address, are the exception.
//
// # What it does not promise
//
// ZooKeeper cannot set access lists in a transaction. Those of nodes that exist
// already are set one by one afterwards, each guarded by its version and noted
// in the index beforehand; an apply that is interrupted there leaves nodes with
// their old lists, and the next one finishes.
//
// A node that is deleted and created again by hand, with equal versions, in the
// milliseconds between the verification and the transaction is not told apart
// from the one that was verified.
//
// The package prints nothing. What happens is reported as values of [Event].
package apply
