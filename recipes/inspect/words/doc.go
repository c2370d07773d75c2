// Package words asks the servers of an ensemble about themselves, and about the sessions of their clients, in ZooKeeper's four-letter words.
//
//	asker := words.New(func() {})
//	answers, err := asker.Ask(ctx, session) // answers.Servers, answers.Sessions, answers.Unasked
//
// Only the servers know where a client connects from, and whether it is cut off:
//
//	what a server allows and answers           what is known
//	-----------------------------------------  ---------------------------------------------------------------------
//	dump of the leader (or the only server)    Session.Silent, Session.Expires: certain, wherever the client connects
//	dump of the server we are connected to     who owns which contender; Session.Nodes; its own clients' addresses
//	cons of a server                           the addresses of its clients, at the port that is asked
//	cons of every server                       Session.Away: no server lists a connection of the session
//	srvr of a server                           whether it leads; how many connections it has on all ports
//	/zookeeper/config                          the servers that the client's configuration does not name
//	none of these                              nothing about sessions; Unasked and Server.Error say why
//
// An [Asker] also asks the servers that /zookeeper/config names. It sends these servers the words above, with TLS if the client uses TLS,
// and never credentials or a client certificate. If /zookeeper/config names no addresses for clients, the Asker tries the port of our own
// server, unless several servers are on one host.
//
// [Unasked] names each server that did not tell all its connections, and why. While there is such a server, no session is Away. A session
// that is Away may still be connected to an observer that the ensemble's configuration does not name. A session that the leader has not
// heard from is silent for certain.
package words
