package forms

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// subjects are forms people write, and what new X500Principal(form).getName() of OpenJDK 17 makes of them; "!" where it
// refuses them, and "?" where its answer is a guess: how a certificate has these values is not known to a name.
var subjects = map[string]string{
	"CN=alice,OU=ops,O=Acme,C=DE": "",
	"CN=alice, OU=ops, O=Acme":    "CN=alice,OU=ops,O=Acme",
	"cn=alice,ou=ops":             "CN=alice,OU=ops",
	"CN=alice;O=Acme":             "CN=alice,O=Acme",
	`CN="Acme, Inc."`:             `CN=Acme\, Inc.`,
	`CN=Acme\, Inc.`:              "",
	`CN=Acme\2C Inc.`:             `CN=Acme\, Inc.`,
	`CN=a\=b`:                     "",
	"CN=a=b":                      `CN=a\=b`,
	"CN=a#b":                      `CN=a\#b`,
	"CN=#alice":                   "!",
	`CN=\#alice`:                  "",
	"CN=a/b":                      "",
	"CN=*.acme.org":               "",
	"EMAILADDRESS=a@b.de,CN=x":    "1.2.840.113549.1.9.1=#16066140622e6465,CN=x",
	"emailAddress=a@b.de,CN=x":    "1.2.840.113549.1.9.1=#16066140622e6465,CN=x",
	"1.2.840.113549.1.9.1=#16066140622e6465,CN=x": "",
	"1.2.840.113549.1.9.1=#16066140622E6465,CN=x": "1.2.840.113549.1.9.1=#16066140622e6465,CN=x",
	"E=a@b.de":                 "!",
	"SERIALNUMBER=4711,CN=x":   "2.5.4.5=#130434373131,CN=x",
	"T=Dr,CN=a":                "?",
	"CN=alice+OU=ops,O=Acme":   "",
	"OU=ops + CN=alice,O=Acme": "OU=ops+CN=alice,O=Acme",
	"CN=Größe":                 "",
	`CN=Gr\C3\B6\C3\9Fe`:       "CN=Größe",
	"CN=":                      "",
	"CN":                       "!",
	"ST=Hessen":                "",
	"DC=acme,DC=org":           "",
	"CN=a  b":                  "",
	"CN= alice ,O=b":           "CN=alice,O=b",
	`CN=\ alice\ ,O=b`:         "",
	`CN=a\<b\>`:                "",
	`CN=a"b`:                   "!",
	"CN=a+b":                   "!",
	`CN=a\\b`:                  "",
	",CN=a":                    "!",
	"CN=a,":                    "!",
	"CN=a,,O=b":                "!",
	"CN=alice,STREET=Ring 1,L=Kassel,UID=al,2.5.4.3": "!",
}

func TestSubjectsAreTakenOnlyAsTheServersWriteThem(t *testing.T) {
	for form, want := range subjects {
		if want == "" {
			require.NoError(t, CheckPrincipal("x509", form), form)
			continue
		}
		require.ErrorContains(t, CheckPrincipal("x509", form), "character by character", form)
		if want != "!" && want != "?" {
			require.NoError(t, CheckPrincipal("x509", want), want)
		}
	}
	// What OpenSSL prints without -nameopt: the order of the certificate. Java takes no name of the first form, and the second
	// for the reverse of what is meant.
	for _, form := range []string{"/C=DE/O=Acme/CN=alice", "C = DE, O = Acme, CN = ali", "C=DE, O=Acme, CN=ali", "/CN=alice"} {
		require.Error(t, CheckPrincipal("x509", form), form)
	}
	for form, backwards := range map[string]bool{"C=DE,O=Acme,CN=ali": true, `C=DE,CN=a\,b`: true, "CN=ali,O=Acme,C=DE": false, "CN=ali": false, `O=a\,CN\=b,C=DE`: false} {
		require.NoError(t, CheckPrincipal("x509", form), form)
		require.Equal(t, backwards, FromTheTop.MatchString(form), form)
	}
}

func TestPrincipalsOfEachScheme(t *testing.T) {
	for id, ok := range map[string]bool{
		"alice": true, "alice@ACME.ORG": true, "zookeeper/host.acme.org@ACME.ORG": true, "a/b@C@D": false, "a/b/c@D": false,
	} {
		require.Equal(t, ok, CheckPrincipal("sasl", id) == nil, id)
	}
	for id, ok := range map[string]bool{
		"10.0.0.1": true, "10.0.0.0/8": true, "10.1.2.3/8": true, "::1": true, "fe80::/10": true, "fe80::1%eth0": false, "10.0.0.1/33": false, "10.0.0": false, "010.0.0.1": false, "host": false,
	} {
		require.Equal(t, ok, CheckPrincipal("ip", id) == nil, id)
	}
	require.ErrorContains(t, CheckPrincipal("auth", ""), "Name the identity itself")
	require.ErrorContains(t, CheckPrincipal("auth", "x"), "who applies first")
	require.NoError(t, CheckPrincipal("world", "anyone"))
	require.Error(t, CheckPrincipal("world", "everyone"))
}
