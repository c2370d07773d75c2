// Package declare reads what a lock is: its kind, parameters and access list, and the path where a key has its node.
//
//	reader := cache.Begin(session)
//	declaration, err := reader.Of(ctx, &declare.Name{Kind: kind.Mutex, Path: "/locks/ledger"})
//
// A [Name] is how a program names a lock. A [Reader] reads a [Declaration] once a session and watches it; a declaration whose watch has
// fired is [Declaration.Stale] and is read again. A [Cache] bounds how many a client keeps. A [KeyPathError] says that the lock is a
// key's, and where.
//
// The package writes nothing, except with WithCreate. It knows no queue and no holder.
package declare
