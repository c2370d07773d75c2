// Package znode creates and deletes this client's own nodes, and always finds out what became of a request.
//
//	txn := &znode.Txn{Owner: nodes, Born: []*znode.Node{node}}
//	lists, err := txn.Run(ctx, node.Dir) // created, and then listed
//	err = znode.Drop(ctx, []*znode.Node{node}, func() {})
//
// A [Node] is one ephemeral node of ours in a queue. Its name begins with 122 random bits, so this client finds it again if the reply to
// its create was lost. A [Txn] creates and deletes nodes in one transaction. After an error none of the new nodes exists, or a goroutine
// in the background deletes them and then closes Txn.Left. [ClientNodes] has the nodes of a client and the goroutines that clean up;
// [SessionNodes] has the nodes of one session. A [KeyNode] is the node of a key: the first contender of the key creates it, and the last
// one deletes it.
//
// The package relies on package session for what is known about a request (session.Outcome). It never deletes another client's contender.
// It deletes the node of a key that another client created, but only while that node has no children. It goes on deleting a node until the
// node is gone or its session is over.
package znode
