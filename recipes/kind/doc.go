// Package kind describes each recipe type: its parameters, its child nodes, the names of its contenders, and the rule that admits them. It
// also has the payload, which stores the declaration of a lock in its znode.
//
// Programs need this package for the parameters of a lock without a declaration (recipes.WithParams), and to declare locks in
// tests:
//
//	err := server.Provision("/locks/ledger", &kind.Payload{Params: &kind.MutexParams{}})
//
// No other package describes recipe types. The configuration language builds its block schemas from the parameter tables here, and plan
// compares parameters through them. Apply writes the payload, and the library reads it when a program uses a lock. A new recipe type is one
// file in this package, and its code in package recipes or in a package below it.
//
// # The payload
//
// A provisioned node keeps its declaration in its own data, as JSON. The declaration is never in a child, because every child of
// a lock is a contender to some client (CURATOR-43). [Decode] distinguishes data that is not ours ([ErrForeign]), data of a newer
// format ([VersionError]) and data that is ours but damaged (any other error). Decode keeps fields that it does not know. So an
// older program that rewrites a payload drops nothing that a newer program wrote.
//
// # Contenders
//
// [ParseContender] parses the names that Apache Curator, kazoo, go-zookeeper and ZooKeeper's own WriteLock write, so that all clients of a
// queue see the same order. Other children are not contenders: callers report them and never wait for them.
//
// The package opens no connection. Its only state is the table of kinds, which never changes once the program has started.
package kind
