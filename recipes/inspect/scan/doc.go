// Package scan looks at all locks of a tree, or of a whole ensemble, once or repeatedly:
//
//	snapshot, err := scan.Look(ctx, client, scan.Options{Prefix: "/locks"})
//	scanner := scan.New(client, scan.Options{Prefix: "/", Reads: 400})
//	snapshot, err = scanner.Scan(ctx) // and again: only what may have changed is read
//
// A [Snapshot] holds a report of each lock, the sessions and the servers, and who waits for whom. [Snapshot.Unread] and [Snapshot.Cut]
// name the locks that are missing in it.
//
// A [Scanner] keeps an entry for each node. One look is a round: it asks the servers for the contenders that they list (package words),
// reads the entries that differ from that list, reads new entries, and then reads some of the others, which take turns.
//
// A family of keyed locks is one report, with inspect.Keys in it. A Scanner reads some of the keys in each look, those with waiters
// first. If Options.Prefix is the node of a key, the Scanner judges that key as its family declares.
//
// The package writes nothing. A Scanner refuses a connection that could write.
package scan
