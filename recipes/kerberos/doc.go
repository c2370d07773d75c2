// Package kerberos logs programs in to ZooKeeper with Kerberos: SASL's mechanism GSSAPI, with mutual authentication.
//
//	login, err := kerberos.New(kerberos.Config{
//		Principal: "ledger@EXAMPLE.COM",
//		Keytab:    "/etc/ledger/ledger.keytab",
//	})
//	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk1.example.com:2181"}, SASL: login})
//
// Without a keytab the tickets are those of a credential cache, which kinit fills. Only caches in files can be read.
//
// # What is renewed
//
// A server checks a ticket when a connection is made, and never again: a connection outlives it. Tickets are renewed when four
// fifths of their time have passed, so that the next connection has one even while no key distribution center (KDC) answers: with
// a keytab by logging in again, in a cache by renewing the ticket, if it is renewable. The keytab, the cache and krb5.conf are read
// again when they have changed.
//
// # What is not there
//
// Kerberos is the library github.com/jcmturner/gokrb5/v8, which has no release since 2023 and knows: no session keys but AES
// (neither RC4 nor 3DES for messages), no include lines in krb5.conf, no caches but files, and no FAST armour, so no passwords that
// are used once. A server in another realm is found over one hop, or by referral.
//
// Programs that do not import this package neither link nor download that library.
package kerberos
