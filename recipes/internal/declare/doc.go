// Package declare reads what a lock is: its kind, parameters and access list, and the path where a key has its node.
//
//	reader := cache.Begin(session)
//	declaration, err := reader.Of(ctx, &declare.Name{Kind: kind.Mutex, Path: "/locks/ledger"})
//
// A program names a lock by a [Name]. A [Reader] reads a [Declaration] once in each session and watches it. A declaration whose
// watch has fired is [Declaration.Stale], and the next use reads it again. A [Cache] bounds how many declarations a client
// keeps. A [KeyPathError] says that the lock belongs to a key, and where the key's node is.
//
// The package writes nothing, except the nodes of a lock that is opened with WithCreate. It knows no queue and no holder.
package declare
