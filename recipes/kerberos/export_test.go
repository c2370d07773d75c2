package kerberos

import (
	"context"
	"os"
	"testing"
	"time"
)

// Ends returns the end times of the tickets at hand for servers.
func (l *Login) Ends() (ends []time.Time) {
	l.turn.Lock()
	defer l.turn.Unlock()
	for _, t := range l.tickets.services {
		ends = append(ends, t.end)
	}
	return ends
}

// ServerOf returns the server principal whose ticket a login asks for.
func (l *Login) ServerOf(ctx context.Context, server, address string) (string, error) {
	s, err := l.server(ctx, server, address)
	return s.String(), err
}

// Resolve replaces DNS.
func (l *Login) Resolve(names, addresses map[string][]string) {
	l.lookupAddr = func(_ context.Context, ip string) ([]string, error) { return names[ip], nil }
	l.lookupHost = func(_ context.Context, host string) ([]string, error) { return addresses[host], nil }
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
