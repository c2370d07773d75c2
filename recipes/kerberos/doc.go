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
// A server checks a ticket when a connection is made, and never again: a connection outlives its ticket. Tickets are renewed when
// four fifths of their time have passed. So the next connection has a valid ticket even while no key distribution center (KDC)
// answers. With a keytab, the program logs in again. With a cache, the program renews the ticket if the ticket is renewable. It
// does not write the cache. The keytab, the cache and krb5.conf are read again when they have changed.
//
// # What is not there
//
// The package uses the library github.com/jcmturner/gokrb5/v8, which has had no release since 2023. Its session keys are AES only
// (no RC4 or 3DES for messages), and its caches are files only. It does not know include lines in krb5.conf. It does not know
// FAST armour either, so it cannot use one-time passwords. A server in another realm is found over one hop, or by referral.
//
// A program links and downloads that library only if it imports this package, itself or through package config.
package kerberos
