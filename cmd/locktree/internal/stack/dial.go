package stack

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
)

// Connect connects to an ensemble. Package config knows servers and identity; session and TLS
// can also come from the ZOOKEEPER_ variables that the Terraform provider for ZooKeeper reads.
// A readOnly client refuses every write: a command that only looks must not be able to do more.
func (l *Loader) Connect(ctx context.Context, e *config.Ensemble, readOnly bool) (*recipes.Client, error) {
	cfg, err := l.ClientConfig(e)
	if err != nil {
		return nil, err
	}
	cfg.ReadOnly = readOnly
	return l.ConnectWith(ctx, e, cfg)
}

// ConnectWith dials. It first compares the id of the ensemble with the configuration, and refuses another one.
func (l *Loader) ConnectWith(ctx context.Context, e *config.Ensemble, cfg recipes.Config) (*recipes.Client, error) {
	client, err := l.Dial(ctx, cfg)
	if err != nil || e.Tree == nil || e.Tree.EnsembleID == "" {
		return client, err
	}
	bounded, cancel := context.WithTimeout(ctx, SessionWithin(e))
	defer cancel()
	s, err := client.Session(bounded)
	if err == nil {
		err = read.Recognize(bounded, s, e.Tree)
	}
	if err != nil {
		err = Denied(bounded, client, err)
		_ = client.Close() // it holds nothing
		return nil, err
	}
	return client, nil
}

// maxReply bounds a listing, in bytes. It is eight times the limit of a plan, so that a person can look at a namespace that
// others have filled, and empty it. Memory is used as a reply arrives.
const maxReply = 128 << 20

// ClientConfig is what to dial an ensemble with. The environment fills what its block leaves open.
func (l *Loader) ClientConfig(e *config.Ensemble) (recipes.Config, error) {
	with := recipes.Config{Logger: l.logger(), MaxReply: maxReply}
	if text := l.Environ.Get("ZOOKEEPER_SESSION"); text != "" && e.SessionTimeout == 0 {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 {
			return with, view.Failf("Bad session timeout", "The environment variable ZOOKEEPER_SESSION is %q: it must be a number of seconds.", text)
		}
		with.SessionTimeout = time.Duration(seconds) * time.Second
	}
	if isTrue(l.Environ.Get("ZOOKEEPER_TLS_SKIP_VERIFY")) {
		return with, view.Failf("TLS cannot go unverified", "The environment variable ZOOKEEPER_TLS_SKIP_VERIFY is set; locktree does not offer that. Unset it, and name the certificate authority of the servers in ca_file or ZOOKEEPER_TLS_CA_FILE.")
	}
	here := *e
	here.TLS = l.TLS(e)
	cfg, err := here.ClientConfig(with)
	var wrong *hcl.Diagnostic
	if errors.As(err, &wrong) {
		err = view.Failf(wrong.Summary, "%s", wrong.Detail)
	}
	return cfg, err
}

// TLS are the files of an ensemble's TLS; nil for a plain connection.
func (l *Loader) TLS(e *config.Ensemble) *config.TLS {
	if e.TLS == nil && isTrue(l.Environ.Get("ZOOKEEPER_TLS_ENABLED")) {
		return &config.TLS{CAFile: l.envFile("ZOOKEEPER_TLS_CA_FILE"), CertFile: l.envFile("ZOOKEEPER_TLS_CERT_FILE"), KeyFile: l.envFile("ZOOKEEPER_TLS_KEY_FILE")}
	}
	return e.TLS
}

// envFile is the file that an environment variable names, or "".
func (l *Loader) envFile(variable string) string { return l.File(l.Environ.Get(variable)) }

func isTrue(text string) bool {
	b, err := strconv.ParseBool(text)
	return err == nil && b
}

// logger is for debugging connections: LOCKTREE_LOG=debug, info, warn or error logs
// to stderr. Unset, it logs nothing.
func (l *Loader) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Environ.Get("LOCKTREE_LOG"))); err != nil {
		return nil
	}
	return slog.New(slog.NewTextHandler(l.Log, &slog.HandlerOptions{Level: level}))
}
