package recipes

import "github.com/locktree/locktree/recipes/internal/session/sasl"

// SASL logs in to servers by one mechanism of SASL; see [Config]. Which mechanism a server accepts is in its JAAS configuration and
// not negotiated. [DigestMD5] is one; package recipes/kerberos has Kerberos. Its methods are called by many goroutines.
//
//	// Identity is the name that servers have for whoever logs in this way, as in an access list's entry sasl:NAME; "" if it is
//	// not known yet.
//	Identity() string
//	// Start prepares the login of one connection: server is its name as in Config.Servers, address what is dialled, both with
//	// a port. It must obey ctx. An error that wraps ErrAuth says that another attempt is of no use before a person has done
//	// something; others are repeated.
//	Start(ctx context.Context, server, address string) (SASLExchange, error)
type SASL = sasl.Mechanism

// SASLExchange is the login of one connection.
//
//	// Next answers a server's challenge, which is nil at first. done ends the login: nothing more is sent or expected.
//	Next func(challenge []byte) (token []byte, done bool, err error)
//	// Refused is what a person should look at when the server refuses the login, a clause: servers do not say why.
//	Refused string
type SASLExchange = sasl.Exchange

// DigestMD5 logs in as user by the mechanism DIGEST-MD5, for servers whose JAAS section Server has ZooKeeper's DigestLoginModule.
// The password is asked for at each connection, so it may be read from a file that is replaced while the program runs. It does not
// cross the network, and the server must prove that it knows it too. The identity in access lists is sasl:user.
//
// MD5 is broken for other purposes, and whoever listens can try out passwords: use long ones, and TLS. Servers in FIPS mode refuse
// this mechanism.
func DigestMD5(user string, password func() (Secret, error)) SASL {
	return sasl.DigestMD5(user, password)
}
