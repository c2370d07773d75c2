package session

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session/clock"
	"github.com/locktree/locktree/recipes/internal/session/sasl"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// stayConnected connects the session to one server after another until it is over. Only this goroutine makes and reads links. It makes a
// link only after the last one was forgotten.
func (s *Session) stayConnected() {
	defer close(s.joined)
	defer s.running.Wait()
	for s.live.Err() == nil {
		t, pass, first := s.hosts.Next(s.longestDelay())
		// After a failure the next server is tried at once; a pause comes only when all have failed.
		if first && pass > 0 && (s.turnedAway() || !s.pause(pass)) {
			return
		}
		if l := s.connect(t, pass); l != nil {
			began := time.Now()
			l.serve()
			if time.Since(began) < settlingTime {
				continue
			}
			s.hosts.Restart()
			if !wait(s.live, s.client.jitter(s.longestPause())) {
				return
			}
		}
	}
}

// settlingTime is how long a connection must have lasted to reset the count of passes. Without that condition, a server that grants
// sessions and drops them would be dialled in a tight loop.
const settlingTime = time.Second

// connect makes one attempt at a server: dialling, TLS and the connect request. It returns nil if the session is not granted.
func (s *Session) connect(t servers.Server, pass int) *link {
	ctx, cancel := context.WithTimeout(s.live, s.budget(pass))
	defer cancel()
	s.hosts.Trying(t, "still connecting")
	login, err := s.login(ctx, t)
	if err != nil {
		s.blame(t, explain(err))
		s.loginFailed(err)
		return nil
	}
	conn, ours, err := s.open(ctx, t)
	if err != nil {
		s.blame(t, explain(err))
		return nil
	}
	s.hosts.Trying(t, "it accepted the connection, but has not answered the connect request yet")
	l, err := s.handshake(ctx, conn, t, ours, login)
	if err != nil {
		hangUp(conn)
		s.blame(t, explainSilence(ownFault(ours, err)))
		s.loginFailed(err)
		s.metKeeper(t, err)
		return nil
	}
	return l
}

// login prepares the login of a connection; nil if there is no mechanism.
func (s *Session) login(ctx context.Context, t servers.Server) (*sasl.Login, error) {
	if s.client.cfg.SASL == nil {
		return nil, nil
	}
	return sasl.NewLogin(ctx, s.client.cfg.SASL, t.Name, t.Addr)
}

// handshake asks a server for a new session at first, and later always for the same session. It then logs in, unless login is nil.
func (s *Session) handshake(ctx context.Context, conn net.Conn, t servers.Server, ours shownCertificates, login *sasl.Login) (*link, error) {
	s.mu.Lock()
	request := wire.ConnectFrame(s.Zxid(), s.timeout, s.ID(), []byte(s.password))
	s.mu.Unlock()
	var answer wire.Grant
	asked := s.clock.Now()
	err := talk(ctx, conn, request, func(r io.ReadWriter) (err error) {
		if answer, err = wire.ReadGrant(r); err == nil && answer.ID != 0 && login != nil {
			err = login.Run(r)
		}
		return err
	})
	switch {
	case err != nil && login != nil:
		return nil, login.Explain(err)
	case err != nil:
		return nil, err
	}
	l := &link{
		s: s, conn: conn, raw: newRawWriter(conn), target: t, shown: ours, asked: asked, timeout: time.Duration(answer.Timeout) * time.Millisecond,
		r:      bufio.NewReaderSize(conn, 16<<10),
		answer: asked, touches: []clock.Stamp{asked}, // the connect request is the first answered frame
	}
	return l, s.acceptGrant(answer, l)
}

// talk writes a request, and calls receive for the answer. When ctx ends it hangs up.
func talk(ctx context.Context, conn net.Conn, request []byte, receive func(io.ReadWriter) error) error {
	stop := context.AfterFunc(ctx, func() { hangUp(conn) })
	// If this fails, receive finds out. An answer that the peer sent before it hung up explains more than the failure of the write.
	_, _ = conn.Write(request)
	err := receive(conn)
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// hangUp closes the socket. tls.Conn.Close would first send an alert, and wait up to five seconds for a peer that does not read. The
// goroutine that found the connection dead would have to wait for that.
func hangUp(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// blame notes why there is no connection to a server, unless the session is over.
func (s *Session) blame(t servers.Server, cause string) {
	if s.Err() == nil {
		s.hosts.Blame(t, cause)
	}
}

// pause waits between two passes over the servers. Its jitter grows from pass to pass, so that the clients of a restarted ensemble do not
// come back in step. Before there is a session, the pause is a second plus a random time of at most T/6 (T: session timeout). Later it
// grows to the longest that the session can spare. It returns false when the session ends meanwhile.
func (s *Session) pause(pass int) bool {
	var d time.Duration
	if most := s.longestDelay(); most > 0 {
		most = min(clock.Spacing.Of(s.Timeout())<<min(pass-1, 6), most)
		d = most/2 + s.client.jitter(most/2)
	} else {
		d = time.Second + s.client.jitter(min(250*time.Millisecond<<min(pass, 6), s.Timeout()/6))
	}
	return wait(s.live, d)
}

// longestDelay returns how long a pass over the servers may be put off without risk for the session, 0 before there is a session. A
// session that holds nothing lasts until 7T/8 after the newest answered frame was sent; when a silent connection is given up, 5T/24
// remain. A lease ends T/3 after the first heartbeat that fails: ten passes fit into that.
func (s *Session) longestDelay() (most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := s.readClock(); {
	case s.state == stateAsked:
		return 0
	case len(s.holds) > 0 && !now.Before(s.proof.sent.After(clock.Beat.Of(s.timeout), s.slept)):
		return clock.Spacing.Of(s.timeout)
	default:
		return clock.Respite.Of(s.timeout)
	}
}

// longestPause returns the longest pause before the first attempt after a connection has ended. The pause spreads the clients of a server
// that ends all its connections. It takes at most T/12, and never lasts beyond schedule.silent. While something is held, it also ends
// when a heartbeat is due, T/6 after the send of the last commit; if one is due already, there is no pause. So a pause leaves 5T/24 to a
// session that holds nothing, and T/3 to a lease, enough for ten passes: the jitter ends no lease and no place in a queue.
func (s *Session) longestPause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.readClock()
	until := s.schedule().silent
	if beat := s.proof.sent.After(clock.Beat.Of(s.timeout), s.slept); len(s.holds) > 0 && beat.Before(until) {
		until = beat
	}
	return max(0, min(clock.Respite.Of(s.timeout), until.Sub(now)))
}

// wait waits for d. It returns false when the context live ends meanwhile.
func wait(live context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-live.Done():
		return false
	}
}

// budget bounds one attempt: dialling, TLS and the answer to the connect request. With a session timeout of T, the servers share T/3. So
// of several servers each has T/6 at most. That is less than the 5T/24 that remain when a silent connection is given up: one server that
// accepts and says nothing does not cost the session. After a failed pass the budget doubles, for slow networks. It does not double while
// something is held: on so slow a network a lease would end anyway. However many servers there are, each gets at least half a second, or
// T/6 if that is shorter.
func (s *Session) budget(pass int) time.Duration {
	s.mu.Lock()
	t, asked, held := s.timeout, s.state == stateAsked, len(s.holds) > 0
	s.mu.Unlock()
	if held {
		pass = 0
	}
	n := time.Duration(s.hosts.Size())
	each := max(t/3/n, min(t/6, 500*time.Millisecond))
	each = min(each<<min(pass, 3), 2*t/3, 10*time.Second)
	if asked { // Dial waits for this attempt
		each = min(each, s.client.cfg.ConnectTimeout*4/5)
	}
	return each
}

// dialGrace is how long the end of a session waits for a Dialer to obey its context.
const dialGrace = time.Second

// dial runs the Dialer within ctx. If Config.Dialer does not obey ctx, its goroutine is left behind, and closes the connection if
// one comes after all. When the session is over dial waits a little first, so that a Dialer that is only slow leaves nothing
// behind after Close.
func (s *Session) dial(ctx context.Context, addr string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialled, ended := make(chan result), make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := s.client.cfg.Dialer(ctx, "tcp", addr)
		select {
		case dialled <- result{conn, err}:
		case <-ctx.Done(): // dial no longer waits for the result
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case r := <-dialled:
		return r.conn, r.err
	case <-ctx.Done():
	}
	if s.live.Err() != nil {
		select {
		case <-ended:
		case <-time.After(dialGrace):
		}
	}
	return nil, context.Cause(ctx)
}

// explain turns an attempt's error into a text that a person can act on.
func explain(err error) string {
	var record tls.RecordHeaderError
	var op *net.OpError
	var dns *net.DNSError
	var expired *expiredError
	var login *sasl.Error
	switch {
	case errors.As(err, &expired):
		return expired.Error()
	case errors.As(err, &login):
		return login.Error()
	case errors.As(err, &record):
		return "it does not speak TLS: use its TLS port (secureClientPort), or connect without TLS"
	case errors.As(err, &dns):
		return dns.Error()
	case wire.TimedOut(err):
		return "no connection in the time allowed for one attempt"
	case errors.As(err, &op) && op.Err != nil:
		return op.Err.Error()
	}
	return err.Error()
}

// explainSilence is explain for a connection that was accepted and ended before a session was granted.
func explainSilence(err error) string {
	switch {
	case errors.As(err, new(*expiredError)), errors.As(err, new(*sasl.Error)): // their texts already say what is wrong
	case wire.TimedOut(err):
		return "it accepted the connection, but did not answer the connect request in the time allowed (a hung server, or an ensemble that commits nothing? a TLS port?)"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "it closed the connection instead of answering the connect request (a TLS port? a server without a quorum, or at a limit of connections?)"
	}
	return explain(err)
}

// turnedAway ends a session that was never granted, if a server refused its login for good in the last pass. A session that was granted
// goes on as long as it may live. A password or a key may have been replaced, which servers learn one after the other.
func (s *Session) turnedAway() bool {
	s.mu.Lock()
	why, asked := s.refusal, s.state == stateAsked
	s.mu.Unlock()
	if why == nil || !asked {
		return false
	}
	s.lose(why)
	return true
}

// loginFailed notes why an attempt failed, if a login was refused.
func (s *Session) loginFailed(err error) {
	if !errors.As(err, new(*sasl.Error)) || !errors.Is(err, ErrAuth) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = fmt.Errorf("%w: %s", ErrAuth, s.hosts.Report())
}

// whyDenied is why a session that was never granted is over.
func (s *Session) whyDenied() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return s.refusal
	}
	return s.err
}

// metKeeper ends a session that no server has granted, if an attempt failed because the server is a ClickHouse Keeper. A session
// that was granted may still live on the other servers, and goes on to them.
func (s *Session) metKeeper(t servers.Server, err error) {
	if !errors.Is(err, wire.ErrKeeper) {
		return
	}
	s.mu.Lock()
	s.refusal = errs.Errorf("recipes: %s is %w: name its servers instead", t.Name, wire.ErrKeeper)
	s.mu.Unlock()
	s.turnedAway()
}

// tlsSource is where the TLS configuration of each connection comes from. Certificates and authorities may expire during a session.
type tlsSource struct {
	get  func() (*tls.Config, error) // nil: connections are plain
	last atomic.Pointer[tls.Config]  // the configuration of the newest connection
}

// nextConfig is the configuration for a new connection; nil for a plain one.
func (s *tlsSource) nextConfig() (*tls.Config, error) {
	if s.get == nil {
		return nil, nil
	}
	config, err := s.get()
	switch {
	case err != nil:
		return nil, fmt.Errorf("Config.GetTLS: %w", err)
	case config == nil: // without a configuration the connection would be plain, so it is not made
		return nil, errors.New("Config.GetTLS returned no configuration")
	}
	s.last.Store(config)
	return config, nil
}

// shownCertificates are the certificates that we have shown to a server on a connection: our own, and those between it and an authority.
type shownCertificates []*x509.Certificate

// open makes one connection: dialling and TLS within ctx. It returns what we have shown to the server, if it asked.
func (s *Session) open(ctx context.Context, t servers.Server) (net.Conn, shownCertificates, error) {
	config, err := s.client.tls.nextConfig()
	if err == nil {
		err = s.checkServable(t, config)
	}
	if err != nil {
		return nil, nil, err
	}
	conn, err := s.dial(ctx, t.Addr)
	if err != nil || config == nil {
		return conn, nil, err
	}
	config = config.Clone()
	if config.ServerName == "" && !config.InsecureSkipVerify {
		// The server's certificate has the configured name; t.Addr is only one of the addresses of that name.
		config.ServerName, _, _ = net.SplitHostPort(t.Name)
	}
	if t.Told {
		config.Certificates, config.GetClientCertificate = nil, nil
	}
	var ours shownCertificates
	choose := chooser(config)
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		chosen, err := choose(asked)
		if err == nil {
			ours = shownBy(chosen)
		}
		return chosen, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, nil, ownFault(ours, fmt.Errorf("TLS handshake: %w", err))
	}
	return secure, ours, nil
}

// checkServable refuses a server without a known address. With TLS it also refuses a server that SRV records name outside their own
// domain, unless ServerName is set. The records are not signed, so an attacker could name his own server, with a valid
// certificate.
func (s *Session) checkServable(t servers.Server, config *tls.Config) error {
	name, ok := t.Service()
	switch {
	case t.Addr == "":
		return errors.New(s.hosts.Unknown(t))
	case !ok || config == nil || config.ServerName != "" || config.InsecureSkipVerify:
		return nil
	}
	domain := name
	for strings.HasPrefix(domain, "_") {
		_, domain, _ = strings.Cut(domain, ".")
	}
	host, _, _ := net.SplitHostPort(t.Name)
	if host = strings.ToLower(host); host == strings.ToLower(domain) || strings.HasSuffix(host, "."+strings.ToLower(domain)) {
		return nil
	}
	return fmt.Errorf("the SRV records of %s name it, which is not in %s: as name servers can be forged, say which name the servers' certificates have (server_name, tls.Config.ServerName)", name, domain)
}

// shownBy parses a chain up to the first entry that is no certificate: the server will complain about that entry.
func shownBy(chosen *tls.Certificate) (all shownCertificates) {
	for _, der := range chosen.Certificate {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			break
		}
		all = append(all, one)
	}
	return all
}

// Certificate is a certificate that an encrypted connection depends on.
type Certificate struct {
	// True for our client certificate and its chain to an authority; false for the server's certificate and its chain.
	Ours    bool
	Subject string
	Expires time.Time // from then on, no connection that depends on it can be made
}

// Certificates returns the certificates that the present connection depends on, as they were when it was made. It returns none
// without a connection, without encryption, or if the server's certificate was not verified and the server did not ask for ours.
func (s *Session) Certificates() (all []Certificate) {
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	for _, c := range l.shown {
		all = append(all, Certificate{true, c.Subject.String(), c.NotAfter})
	}
	if secure, ok := l.conn.(*tls.Conn); ok {
		for _, c := range lastingChain(secure.ConnectionState().VerifiedChains) {
			all = append(all, Certificate{false, c.Subject.String(), c.NotAfter})
		}
	}
	return all
}

// lastingChain returns the chain that is valid for longest: one valid chain is enough.
func lastingChain(chains [][]*x509.Certificate) (best []*x509.Certificate) {
	var until time.Time
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(until) {
			best, until = chain, end
		}
	}
	return best
}

// chooser chooses our certificate, as package tls does.
func chooser(config *tls.Config) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if config.GetClientCertificate != nil {
		return config.GetClientCertificate
	}
	return func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range config.Certificates {
			if asked.SupportsCertificate(&config.Certificates[i]) == nil {
				return &config.Certificates[i], nil
			}
		}
		return new(tls.Certificate), nil
	}
}

// expiredError is the error of a connection that got no answer after we had shown an expired certificate. Servers close such a
// connection with an alert that says little, or with none.
type expiredError struct {
	shown *x509.Certificate
	err   error
}

// ownFault returns err, as an expiredError if the certificate that we have shown had expired.
func ownFault(ours shownCertificates, err error) error {
	if err == nil || len(ours) == 0 || wire.TimedOut(err) || time.Now().Before(ours[0].NotAfter) {
		return err
	}
	return &expiredError{ours[0], err}
}

func (e *expiredError) Error() string {
	return fmt.Sprintf("our certificate, of %s, expired on %s: %v", e.shown.Subject, e.shown.NotAfter.UTC().Format(time.RFC3339), e.err)
}

func (e *expiredError) Unwrap() error { return e.err }
