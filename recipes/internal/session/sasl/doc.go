// Package sasl logs a connection in by SASL, and has the mechanism DIGEST-MD5. Package recipes/kerberos has another mechanism.
//
//	login, err := sasl.NewLogin(ctx, mechanism, server, address) // before the connection is dialled
//	err = login.Run(conn)                                        // after the server granted the session
//
// A [Mechanism] makes an [Exchange] for each connection, and a [Login] carries it out: token, challenge, token. A login takes a
// bounded number of rounds and bytes, whatever the server sends. Its [Error] says what to do next, and never shows a [Secret].
package sasl
