//go:build linux

package ensemble_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// rotated are the files of a client certificate and of the authorities, which are replaced while programs use them.
type rotated struct{ cert, key, ca string }

func (r rotated) write(t *testing.T, c tls.Certificate, authorities ...*hostile.CA) {
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	require.NoError(t, err)
	var trusted []byte
	for _, a := range authorities {
		trusted = append(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})...)
	}
	for name, data := range map[string][]byte{
		r.cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		r.key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), r.ca: trusted,
	} {
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
}

func (r rotated) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(r.cert, r.key)
	if err != nil {
		return nil, err
	}
	trusted, err := os.ReadFile(r.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

// Twenty times the certificate of a client that holds a lock and takes others is replaced, and its connection cut: it presents
// the new one, and keeps its lease. Servers do not look at it again on a connection that is up.
func TestTwentyCertificatesUnderLoadCostNoLease(t *testing.T) {
	effort.Proof(t) // a minute and more: each time it waits up to a twelfth of the timeout, and two handshakes
	t.Parallel()
	a, other := hostile.Authority(t), hostile.Authority(t)
	_, secure := secureServer(t, a)
	for name, ways := range map[string]func(r rotated, cfg *recipes.Config){
		"files that are read for each connection": func(r rotated, cfg *recipes.Config) { cfg.GetTLS = r.read },
		"GetClientCertificate": func(r rotated, cfg *recipes.Config) {
			first, _ := r.read()
			cfg.TLS = &tls.Config{RootCAs: first.RootCAs, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				now, err := r.read()
				if err != nil {
					return nil, err
				}
				return &now.Certificates[0], nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := rotated{filepath.Join(dir, "c.pem"), filepath.Join(dir, "c.key"), filepath.Join(dir, "ca.pem")}
			issue := func(n int) {
				authorities := []*hostile.CA{a, other}
				r.write(t, first2(a.Issue(t, fmt.Sprintf("client-%d", n))), authorities[:1+n%2]...)
			}
			issue(0)
			var present atomic.Pointer[net.Conn]
			cfg := recipes.Config{Servers: []string{secure}, SessionTimeout: busyTimeout / 2, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if err == nil {
					present.Store(&c)
				}
				return c, err
			}}
			ways(r, &cfg)
			c := dial(t, cfg)
			s := live(t, c)
			root := fmt.Sprintf("/rotated%d", len(name))
			for _, path := range []string{root, root + "/held", root + "/load"} {
				_, err := s.Create(t.Context(), path, nil, 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
			}
			held := held(t, c.Mutex(root+"/held", recipes.WithParams(kind.Mutex.New())).Lock)
			load, stop := context.WithCancel(t.Context())
			var working sync.WaitGroup
			var cycles atomic.Int64
			for range 4 {
				working.Go(func() {
					for load.Err() == nil {
						err := c.Mutex(root+"/load", recipes.WithParams(kind.Mutex.New())).Do(load, func(context.Context, *recipes.Lease) error {
							cycles.Add(1)
							return nil
						})
						if err != nil && load.Err() == nil && !recipes.Retryable(err) {
							t.Errorf("a lock was not had, or lost: %v", err)
						}
					}
				})
			}
			id := s.ID()
			for n := 1; n <= 20; n++ {
				issue(n)
				_ = (*present.Load()).Close()
				want := fmt.Sprintf("CN=client-%d", n)
				require.Eventually(t, func() bool { return strings.HasPrefix(presented(t, s, root), want+",") }, hostile.Patience, 10*time.Millisecond, "the server sees %s", want)
				before := cycles.Load()
				require.Eventually(t, func() bool { return cycles.Load() >= before+10 }, hostile.Patience, 10*time.Millisecond)
				require.NoError(t, held.Context().Err(), "after %d certificates", n)
			}
			stop()
			working.Wait()
			require.Equal(t, id, live(t, c).ID())
			require.NoError(t, held.Unlock(t.Context()))
			t.Logf("20 certificates, %d locks meanwhile, no lease lost", cycles.Load())
		})
	}
}

// presented is the subject that the server sees on the present connection; "" if that has just ended.
func presented(t *testing.T, s *session.Session, root string) string {
	path, err := s.Create(t.Context(), root+"/who-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.AuthACL(zk.PermAll))
	if err != nil {
		return ""
	}
	acl, _, err := s.GetACL(t.Context(), path)
	if err != nil {
		return ""
	}
	return acl[0].ID
}
