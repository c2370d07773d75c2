package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/internal/session/identity"
)

// Identity is one ACL identity, as a ZooKeeper server writes it into an ACL.
type Identity struct{ Scheme, ID string }

// schemeEnsemble carries no identity. Its credentials are the name that the servers must have (zookeeper.ensembleAuthName). A
// server with another name ends the connection without an answer, so that the client tries another server.
const schemeEnsemble = "ensemble"

// checkAuth refuses identities that no server could accept, and drops duplicates, which would be sent on every connection. The
// name of the ensemble comes first, so that no other ensemble gets to see a password.
func checkAuth(auth []Auth) ([]Auth, error) {
	var kept []Auth
	seen := map[Auth]bool{}
	for _, a := range auth {
		switch user, password, ok := strings.Cut(string(a.Credentials), ":"); {
		case a.Scheme == "":
			return nil, errors.New("recipes: Config.Auth: an entry has no scheme; the usual one is digest")
		// ZooKeeper would accept these: it refuses no digest.
		case a.Scheme == "digest" && (!ok || user == "" || password == ""):
			return nil, errors.New("recipes: Config.Auth: credentials of scheme digest are user:password")
		case a.Scheme == "sasl":
			return nil, fmt.Errorf("%w: scheme sasl takes no credentials; log in by SASL instead: in Go, by the field SASL, in a configuration by an auth block \"sasl\" or \"kerberos\"", ErrAuth)
		}
		if !seen[a] {
			seen[a] = true
			kept = append(kept, a)
		}
	}
	isName := func(a Auth) bool { return a.Scheme == schemeEnsemble }
	names := slices.DeleteFunc(slices.Clone(kept), func(a Auth) bool { return !isName(a) })
	return append(names, slices.DeleteFunc(kept, isName)...), nil
}

// Identities returns the identities of this session on the servers, as far as a client can know them: world:anyone, the name of
// Config.SASL, the digest users of Config.Auth, and the subject of the TLS client certificate. Other identities are missing,
// because only a server knows them (ip, the schemes of plugins). A certificate that tls.Config.GetClientCertificate chooses is
// missing too: the choice depends on a server's request. Callers use it to check that an access list will not lock them out.
func (s *Session) Identities() []Identity {
	all := []Identity{{"world", "anyone"}}
	if login := s.client.cfg.SASL; login != nil {
		if name := login.Identity(); name != "" {
			all = append(all, Identity{"sasl", name})
		}
	}
	for _, a := range s.client.cfg.Auth {
		if a.Scheme == "digest" {
			all = append(all, Identity{"digest", identity.Digest(string(a.Credentials))})
		}
	}
	if config := s.client.tls.last.Load(); config != nil {
		for _, certificate := range config.Certificates {
			// A certificate that cannot be read gives no identity; the handshake reports what is wrong with it.
			if subject, err := identity.Subject(certificate); err == nil {
				all = append(all, Identity{"x509", subject})
			}
		}
	}
	return all
}

// Authenticated reports whether the session has an identity besides world:anyone.
func (s *Session) Authenticated() bool {
	return len(s.client.cfg.Auth) > 0 || len(s.Identities()) > 1
}

// Whoami describes the Identities for people. It leaves out the hash of a digest, because a short password can be guessed from
// it.
func (s *Session) Whoami() string {
	var names []string
	for _, id := range s.Identities() {
		switch id.Scheme {
		case "world":
			continue
		case "digest":
			user, _, _ := strings.Cut(id.ID, ":")
			names = append(names, "digest:"+user)
		default:
			names = append(names, id.Scheme+":"+id.ID)
		}
	}
	for _, a := range s.client.cfg.Auth {
		if a.Scheme != "digest" && a.Scheme != schemeEnsemble {
			names = append(names, "somebody of scheme "+a.Scheme)
		}
	}
	if len(names) == 0 {
		return "world:anyone (no credentials are given)"
	}
	return strings.Join(names, " and ")
}
