// Package scan looks at all locks of a tree, or of a whole ensemble, once or repeatedly:
//
//	snapshot, err := scan.Look(ctx, client, scan.Options{Prefix: "/locks"})
//	scanner := scan.New(client, scan.Options{Prefix: "/", Reads: 400})
//	snapshot, err = scanner.Scan(ctx) // a further call reads only what may have changed
//
// A [Snapshot] holds a report of each lock, the sessions, the servers and the wait-for graph. [Snapshot.Unread] names the locks that could
// not be read, and [Snapshot.Cut] reports that further nodes were left out.
//
// A [Scanner] keeps an entry for each node. In each look, it asks the servers which contenders they list (package words), and reads the
// entries that differ from that list. Then it reads the new entries. The other entries take turns: each look reads some of them.
//
// A family of keyed locks has one report, with an inspect.Keys in it. A Scanner reads some of the keys in each look, those with waiters
// first. If Options.Prefix is the node of a key, the Scanner judges that key as its family declares.
//
// The package writes nothing. A Scanner refuses a connection that could write.
package scan
