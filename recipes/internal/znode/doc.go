// Package znode creates and deletes this client's own nodes, and always finds out what became of a request.
//
//	txn := &znode.Txn{Owner: nodes, Born: []*znode.Node{node}}
//	lists, err := txn.Run(ctx, node.Dir) // created, with a listing behind it
//	err = znode.Drop(ctx, []*znode.Node{node}, func() {})
//
// A [Node] is one ephemeral node of ours in a queue. Its name begins with 122 random bits, so it is known again when the reply to its
// create was lost. A [Txn] creates and deletes nodes in one transaction. After an error none of the new nodes exists, now or once
// Txn.Left is closed. [ClientNodes] has the nodes of a client and the goroutines that clean up; [SessionNodes] those of one session. A
// [KeyNode] is the node of a key, which comes with its first contender and goes with its last.
//
// The package relies on package session for what is known about a request (session.Outcome). It never deletes a node that this client
// did not create, and it never gives up on a node of a session that still lives.
package znode
