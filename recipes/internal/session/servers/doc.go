// Package servers says which server a session tries next, and why the other servers did not grant the session. It resolves names
// and dials nothing.
//
//	names, err := servers.Parse(cfg.Servers)
//	r := servers.NewRotation(ctx, servers.NewRoster(names), book)
//	server, pass, first := r.Next(time.Second)
//
// A client has one [Roster], the list that may be replaced, and one [Book], which resolves names and remembers their last
// addresses. Each session has a [Rotation] over that list. It resolves all names on each pass, tries each [Server] once a pass, and
// keeps the cause of each failure for [Rotation.Report]. The order is random, but SRV priorities come first, and the server that
// was used last comes last.
//
// Name servers may lie, so nothing here says that a server may be trusted: see Session.checkServable.
package servers
