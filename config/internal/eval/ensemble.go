package eval

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/forms"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/kind"
)

// Ensemble is an ensemble block evaluated.
type Ensemble struct {
	Name                           string
	Servers                        []string
	AuthName                       string
	Root                           string
	SessionTimeout, ConnectTimeout time.Duration
	TLS                            *TLS // nil: plain TCP
	Auth                           []recipes.Auth
	Login                          *Login // nil: not at all
	DeclRange                      hcl.Range
	PasswordFiles                  []string     // the files that Auth was read from
	Access                         *plan.Access // nil when the block says neither admins nor readers
	ID                             string       // the id that is pinned
	DefaultRoot                    string       // set only with Options.NoValues: the default of root, "" if there is none; paths then begin at "/"
}

// TLS are the files of an encrypted connection, ready to open.
type TLS struct{ CAFile, CertFile, KeyFile, ServerName string }

// Login is how clients log in by SASL.
type Login struct {
	Kerberos     *kerberos.Config
	User         string
	Password     recipes.Secret
	PasswordFile string
}

func evaluateEnsemble(s scope) {
	b := s.d.Block
	e := &Ensemble{Name: b.Name(), Root: "/", DeclRange: b.Head}
	if s.in.All.opts.NoValues {
		evaluateCodeEnsemble(s, e)
		return
	}
	evaluateServers(s, b.Arg("servers"), e)
	evaluateRoot(s, e)
	e.AuthName, _ = s.text(b.Arg("auth_name"))
	if id, ok := s.text(b.Arg("id")); ok {
		if !record.IsEnsembleID(id) {
			s.reportWrong(b.Arg("id"), "Not an id", "The id of an ensemble is 32 hexadecimal digits, which the first apply draws. \"locktree doctor\" shows it.")
		}
		e.ID = id
	}
	e.SessionTimeout = durationOf(s, b.Arg("session_timeout"), 100*time.Millisecond, time.Hour)
	e.ConnectTimeout = durationOf(s, b.Arg("connect_timeout"), time.Millisecond, time.Hour)
	for _, t := range b.Nested("tls") {
		e.TLS = evaluateTLS(s, t)
	}
	for _, a := range b.Nested("auth") {
		evaluateAuth(s, a, e)
	}
	// With an auth block, the environment's identity is not used. It would also get all rights on each node without an acl. The
	// plan would then differ between machines with and without these variables.
	if len(b.Nested("auth")) == 0 {
		authOfEnvironment(s, e)
	}
	e.Access = evaluateAccess(s, b)
	if len(s.in.Declared.Names["ensemble"]) == 1 {
		s.in.home = e
	}
	s.r.Value = cty.CapsuleVal(ensembleType, e)
}

func evaluateRoot(s scope, e *Ensemble) {
	a := s.d.Block.Arg("root")
	root, ok := s.text(a)
	if !ok {
		return
	}
	if err := kind.ValidatePath(root); err != nil {
		s.reportWrong(a, "Illegal path", explain.Sentence(err.Error()))
		root = "/" // otherwise every node below would be reported as well
	}
	e.Root = root
}

// The environment of the Terraform provider for ZooKeeper fills in arguments that an ensemble leaves open, so that one
// configuration serves several places.
const (
	serversVariable  = "ZOOKEEPER_SERVERS"
	usernameVariable = "ZOOKEEPER_USERNAME"
	passwordVariable = "ZOOKEEPER_PASSWORD"

	passwordFileVariable = "ZOOKEEPER_PASSWORD_FILE"
)

// getenv returns the last of several settings, which is what a child process
// would see.
func (l *loading) getenv(name string) string {
	value := ""
	for _, e := range l.opts.Environ {
		if k, v, ok := strings.Cut(e, "="); ok && k == name {
			value = v
		}
	}
	return value
}

// serversOfEnvironment may leave the ensemble without servers: validating needs none, and connecting reports that they are
// missing.
func serversOfEnvironment(s scope, e *Ensemble) {
	list := s.in.All.getenv(serversVariable)
	if list == "" {
		return
	}
	for server := range strings.SplitSeq(list, ",") {
		server = strings.TrimSpace(server)
		if err := forms.CheckServer(server); err != nil {
			s.refuse(e.DeclRange, "Invalid server", "ensemble %q has no servers of its own, and the environment variable %s has %q: %s.", e.Name, serversVariable, server, err)
			return
		}
		e.Servers = append(e.Servers, server)
	}
}

func authOfEnvironment(s scope, e *Ensemble) {
	user, password, file := s.in.All.getenv(usernameVariable), recipes.Secret(s.in.All.getenv(passwordVariable)), s.in.All.getenv(passwordFileVariable)
	if user == "" {
		return
	}
	for _, name := range []string{usernameVariable, passwordVariable} {
		if err := syntax.TextError(s.in.All.getenv(name)); err != nil {
			s.refuse(e.DeclRange, "Incomplete credentials", "ensemble %q has no auth block, and the environment variable %s %v. Choose another one.", e.Name, name, err)
			return
		}
	}
	if (password == "") == (file == "") || strings.Contains(user, ":") {
		s.refuse(e.DeclRange, "Incomplete credentials", "ensemble %q has no auth block, and the environment variable %s is set: it must be a name without a colon, and either %s must hold its password, or %s must name a file with it.",
			e.Name, usernameVariable, passwordVariable, passwordFileVariable)
		return
	}
	if file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(s.in.Report.Dir, file)
		}
		var err error
		if password, err = PasswordIn(file); err != nil {
			s.refuse(e.DeclRange, "Cannot read the password", "%v. The environment variable %s names the file.", err, passwordFileVariable)
			return
		}
		e.PasswordFiles = append(e.PasswordFiles, file)
	}
	e.Auth = append(e.Auth, recipes.Auth{Scheme: "digest", Credentials: recipes.Secret(user+":") + password})
}

const maxServers = 100

func evaluateServers(s scope, a *syntax.Attribute, e *Ensemble) {
	v, ok := s.publicValue(a, cty.List(cty.String))
	if !ok {
		if !s.r.Failed { // absent, or null
			serversOfEnvironment(s, e)
		}
		return
	}
	for it := v.ElementIterator(); it.Next(); {
		_, item := it.Element()
		if item.IsNull() {
			s.reportWrong(a, "Wrong type", "A server is null. Leave it out of the list.")
			return
		}
		server := strings.TrimSpace(item.AsString())
		if err := forms.CheckServer(server); err != nil {
			s.reportWrong(a, "Invalid server", fmt.Sprintf("%q: %s.", server, err))
			return
		}
		e.Servers = append(e.Servers, server)
	}
	switch n := len(e.Servers); {
	case n == 0:
		s.reportWrong(a, "No servers", `Name at least one server, such as "zk1:2181".`)
	case n > maxServers:
		s.reportWrong(a, "Too many servers", fmt.Sprintf("%d servers are listed; at most %d are allowed.", n, maxServers))
	}
}

// durationOf reads a time span in Go's notation; zero when the argument is not set.
func durationOf(s scope, a *syntax.Attribute, lo, hi time.Duration) time.Duration {
	text, ok := s.text(a)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		s.reportWrong(a, "Invalid time span", fmt.Sprintf(`%q is not a time span: write a number and a unit, such as "15s" or "500ms".`, text))
	case d < lo || d > hi:
		s.reportWrong(a, "Invalid time span", fmt.Sprintf("%s is out of range: it must be between %s and %s.", d, lo, hi))
	default:
		return d
	}
	return 0
}

func evaluateTLS(s scope, b *syntax.Block) *TLS {
	t := &TLS{CAFile: fileOf(s, b.Arg("ca_file")), CertFile: fileOf(s, b.Arg("cert_file")), KeyFile: fileOf(s, b.Arg("key_file"))}
	t.ServerName, _ = s.text(b.Arg("server_name"))
	// null counts as not set. An argument with an error counts as set.
	set := func(name, path string) bool { a := b.Arg(name); return path != "" || a != nil && s.in.isBad(a) }
	if set("cert_file", t.CertFile) != set("key_file", t.KeyFile) {
		s.refuse(b.Head, "Half a certificate", "cert_file and key_file belong together: set both, or neither.")
	}
	return t
}

func evaluateAuth(s scope, b *syntax.Block, e *Ensemble) {
	if !fitsScheme(s, b) {
		return
	}
	if b.Name() != "digest" {
		evaluateLogin(s, b, e)
		return
	}
	at, ok := needsArgument(s, b, "username")
	if !ok {
		return
	}
	user, ok := s.text(at) // access lists show the name: digest:USER
	if ok && (user == "" || strings.Contains(user, ":")) {
		s.reportWrong(at, "Invalid user name", "The user name must not be empty or contain a colon, which separates it from the password.")
	}
	password, file := passwordOf(s, b)
	if file != "" { // access lists need the password, so it is read now
		var err error
		if password, err = PasswordIn(file); err != nil {
			s.reportWrong(b.Arg("password_file"), "Cannot read the password", fmt.Sprintf("%v.", err))
			return
		}
		e.PasswordFiles = append(e.PasswordFiles, file)
	}
	e.Auth = append(e.Auth, recipes.Auth{Scheme: "digest", Credentials: recipes.Secret(user+":") + password})
}

// OfEnvironment is an ensemble block without arguments. It returns nil without an error if no servers are set.
func OfEnvironment(dir string, environ []string) (*Ensemble, error) {
	r := &syntax.Report{Dir: dir}
	e := &Ensemble{Name: "environment", Root: "/"}
	s := scope{in: &Evaluation{Report: r, All: &loading{opts: Options{Environ: environ}}}, r: &Result{}}
	serversOfEnvironment(s, e)
	authOfEnvironment(s, e)
	if r.Diags.HasErrors() {
		var texts []string
		for _, d := range r.Sorted() {
			texts = append(texts, d.Detail)
		}
		return nil, errors.New(strings.Join(texts, " "))
	}
	if len(e.Servers) == 0 {
		return nil, nil
	}
	return e, nil
}
