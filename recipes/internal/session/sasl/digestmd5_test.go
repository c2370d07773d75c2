package sasl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The example of RFC 2831 section 4.
func TestTheProofIsThatOfTheStandard(t *testing.T) {
	x := digestExchange{user: "chris", password: "secret", realm: "elwood.innosoft.com", nonce: "OA6MG9tEQGm2hh", cnonce: "OA6MHXh6VqTrRk", uri: "imap/elwood.innosoft.com"}
	require.Equal(t, "d388dad90d4bbd760a152321f2143af7", x.proof("AUTHENTICATE"))
	require.Equal(t, "ea40f60335c427b5527b84dbabcdfffd", x.proof(""))
}

func FuzzChallenge(f *testing.F) {
	f.Add(`realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess`, "rspauth=00")
	f.Add(`realm="a\"b" , nonce = "\\",,qop="auth,auth-int"`, "")
	f.Fuzz(func(t *testing.T, challenge, answer string) {
		x, err := DigestMD5("ann", func() (Secret, error) { return "p", nil }).Start(t.Context(), "", "")
		require.NoError(t, err)
		_, _, err = x.Next(nil)
		require.NoError(t, err)
		if token, done, err := x.Next([]byte(challenge)); err == nil {
			require.False(t, done)
			_, err := directives(string(token))
			require.NoError(t, err, "what is sent can be read")
			_, done, err = x.Next([]byte(answer))
			require.True(t, err != nil || done)
		}
	})
}
