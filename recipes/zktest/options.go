package zktest

import (
	"crypto/tls"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/release"
	"github.com/locktree/locktree/recipes/zktest/internal/store"
)

// Option changes a server before it starts.
type Option func(*options)

type options struct {
	tick          time.Duration
	latency       time.Duration
	maxFrame      int
	superDigest   string
	extendedTypes bool
	enforceQuota  bool
	x509          bool
	tls           *tls.Config
	reapInterval  time.Duration
	words         []string // the words that are allowed; nil: all words
	saslPassword  func(user string) string
	saslRequired  bool
	version       release.Version
}

// defaultMaxFrame is ZooKeeper's jute.maxbuffer.
const defaultMaxFrame = 0xfffff

func defaults() options {
	return options{tick: 2 * time.Second, maxFrame: defaultMaxFrame, reapInterval: time.Minute, version: release.AsBuiltByDebian}
}

// rules returns the options that concern the tree.
func (o options) rules() store.Rules {
	return store.Rules{
		TTLNodes: o.extendedTypes, EnforceQuota: o.enforceQuota, X509: o.x509, SASL: o.saslPassword != nil,
		ExistsNeedsRead: o.version.ExistsNeedsRead(), MultiDecodesModes: o.version.DecodesFirst(),
	}
}

// WithTickTime sets ZooKeeper's tickTime, 2 s by default, a millisecond at least. Session timeouts are clamped to between 2 and 20 ticks.
// Sessions expire at whole ticks since the server's start, up to one tick after their timeout.
func WithTickTime(d time.Duration) Option { return func(o *options) { o.tick = d } }

// WithLatency makes every byte take d in each direction, so that a round trip
// takes 2d and a dial one round trip. In a synctest bubble that is exact.
func WithLatency(d time.Duration) Option { return func(o *options) { o.latency = d } }

// WithMaxFrame sets jute.maxbuffer, 1,048,575 bytes by default: a client that announces a longer packet loses its connection.
func WithMaxFrame(n int) Option { return func(o *options) { o.maxFrame = n } }

// WithSuperDigest sets the digest identity that may do everything, in the form of [DigestID]. The default is none.
func WithSuperDigest(id string) Option { return func(o *options) { o.superDigest = id } }

// WithExtendedTypes allows TTL nodes (zookeeper.extendedTypesEnabled). Without it
// the answer to their creation is Unimplemented, as in ZooKeeper.
func WithExtendedTypes() Option { return func(o *options) { o.extendedTypes = true } }

// WithReapInterval sets how often empty containers and TTL nodes past their lifetime are removed (znode.container.checkIntervalMs), one
// minute by default, a millisecond at least.
func WithReapInterval(d time.Duration) Option { return func(o *options) { o.reapInterval = d } }

// WithQuotaEnforcement makes hard quota limits refuse writes (enforceQuota). Quotas are counted either way.
func WithQuotaEnforcement() Option { return func(o *options) { o.enforceQuota = true } }

// WithWords allows these four-letter words and no others (4lw.commands.whitelist). By default the server answers all words; a real server
// answers only srvr by default.
func WithWords(words ...string) Option {
	return func(o *options) { o.words = append([]string{}, words...) }
}

// WithSASL makes the server take logins by SASL's mechanism DIGEST-MD5, like a server whose JAAS section Server has ZooKeeper's
// DigestLoginModule. It turns on the scheme sasl. The function password is called at each login. It returns "" for a user that does not
// exist, and must not use the server. A connection that has not logged in is served as before, unless WithSASLRequired says otherwise.
func WithSASL(password func(user string) string) Option {
	return func(o *options) { o.saslPassword = password }
}

// WithSASLRequired makes the server serve only connections that have logged in by SASL (sessionRequireClientSASLAuth, or
// enforce.auth.schemes=sasl). Others get SessionClosedRequireSaslAuth (-124) and lose their connection.
func WithSASLRequired() Option { return func(o *options) { o.saslRequired = true } }

// WithVersion makes the server answer as another release of ZooKeeper does, such as "3.9" or "3.9.1". From 3.9.0 on, events carry the zxid
// of the write that fired them (ZOOKEEPER-4655), and a create2 in a multi is answered with a Stat (ZOOKEEPER-4026). Three more changes came
// with 3.9.0. A write that cannot be decoded takes no zxid, except for a multi. A multi with an unknown mode of creation cannot be decoded.
// The answer to a check outside of a multi is Unimplemented. From 3.9.2 and 3.8.4 on, exists needs READ on a node that exists
// (ZOOKEEPER-2590). The four-letter words say the version. WithVersion panics if v is no version.
//
// Several modes of watches on one path (ZOOKEEPER-4466) and their removal by type (ZOOKEEPER-4471, ZOOKEEPER-4472), both new in 3.9.0, stay
// as in 3.8.0: docs/operating.md.
func WithVersion(v string) Option {
	parsed, err := release.Parse(v)
	if err != nil {
		panic(err)
	}
	return func(o *options) { o.version = parsed }
}
