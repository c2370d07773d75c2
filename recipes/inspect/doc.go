// Package inspect looks at locks without taking any:
//
//	report, err := inspect.Lock(ctx, client, "/locks/payments/ledger")
//
// Its functions take a *recipes.Client. What it can show:
//
//   - [Lock]: who holds a lock and who waits for it; [Look] for a whole subtree
//   - [WaitsFor]: who waits for whom across several locks, and deadlocks
//   - [Scanner]: all of that for a whole ensemble, repeatedly
//   - [Surveyor]: which locks other programs have created without a declaration
//   - [CheckKeys]: whether the keys of a family are as it declares, and none is left over
//   - [Check]: whether the conditions hold that the guarantees of package recipes depend on
//
// # Families and their keys
//
// A family of keyed locks is one [Report], with [Keys] in it: how many keys are in use, and of how many of them more is known. A
// [Scanner] reads some of the keys in each look, those that are waited for first. [Lock], and a Scanner with the node of a key as its
// prefix, judge that key as its family declares.
//
// # What can be known
//
// Who holds and who waits is in the nodes, and is known of every node that may be read; [Snapshot.Unread] and [Snapshot.Cut] name
// the rest. Where clients connect from, and who is cut off, only the servers know:
//
//	what a server allows and answers           what is known
//	-----------------------------------------  ---------------------------------------------------------------------
//	dump of the leader (or the only server)    Session.Silent, Session.Expires: certain, wherever the client connects
//	dump of the server we are connected to     who owns which contender; Session.Nodes; its own clients' addresses
//	cons of a server                           the addresses of its clients, at the port that is asked
//	cons of every server                       Session.Away: no server lists a connection of it
//	srvr                                       which server leads; whether cons lists all connections, or another port has some
//	/zookeeper/config                          the servers that the client's configuration does not name
//	none of these                              nothing, and nothing is said
//
// The servers that /zookeeper/config names are asked, too. Their addresses are what a server says: they are sent these words, with
// TLS if the client uses it, and never credentials or a client certificate. If the configuration of the ensemble does not name
// addresses for clients, they are tried at the port of the server that we are connected to, unless several servers are on
// one host. [Snapshot.Unasked] names each server that did not tell all its connections, and why; while there is one, no session is
// Away. A session that is Away may still be connected to an observer that the ensemble's configuration does not name; one that the
// leader has not heard from is silent for certain.
//
// It writes nothing. It understands the contenders of every client that competes for the same locks, declared or not.
// A report is not a snapshot: its parts are read one after another, and it may be out of date when you get it.
package inspect
