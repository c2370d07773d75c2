package recipes

import "github.com/locktree/locktree/recipes/internal/session/sasl"

// SASL logs in to servers by one mechanism of SASL; see [Config]. Which mechanism a server accepts is in its JAAS configuration and
// not negotiated. [DigestMD5] is one, and package recipes/kerberos has Kerberos.
type SASL = sasl.Mechanism

// DigestMD5 logs in as user by the mechanism DIGEST-MD5, for servers whose JAAS section Server has ZooKeeper's DigestLoginModule.
// The password is asked for at each connection, so it may be read from a file that is replaced while the program runs. It does not
// cross the network, and the server must prove that it knows it too. The identity in access lists is sasl:user.
//
// MD5 is broken for other purposes, and whoever listens can try out passwords: use long ones, and TLS. Servers in FIPS mode refuse
// this mechanism.
func DigestMD5(user string, password func() (Secret, error)) SASL {
	return sasl.DigestMD5(user, password)
}
