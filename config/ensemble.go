package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func (s scope) evaluateEnsemble() {
	b := s.d.block
	e := &Ensemble{Name: b.name(), Root: "/", DeclRange: b.head}
	if s.code != nil {
		s.codeEnsemble(e)
		return
	}
	s.evaluateServers(b.arg("servers"), e)
	s.evaluateRoot(e)
	e.AuthName, _ = s.text(b.arg("auth_name"))
	if id, ok := s.text(b.arg("id")); ok {
		if !plan.IsEnsembleID(id) {
			s.wrong(b.arg("id"), "Not an id", "The id of an ensemble is 32 hexadecimal digits, which the first apply draws. \"locktree doctor\" says it.")
		}
		e.id = id
	}
	e.SessionTimeout = s.duration(b.arg("session_timeout"), 100*time.Millisecond, time.Hour)
	e.ConnectTimeout = s.duration(b.arg("connect_timeout"), time.Millisecond, time.Hour)
	for _, t := range b.nested("tls") {
		e.TLS = s.evaluateTLS(t)
	}
	for _, a := range b.nested("auth") {
		s.evaluateAuth(a, e)
	}
	// All or nothing: an identity of the environment beside one of the file would also get all rights on each
	// node without an acl (ownACL), and only where that environment is set.
	if len(b.nested("auth")) == 0 {
		s.authOfEnvironment(e)
	}
	e.access = s.evaluateAccess(b)
	if len(s.names["ensemble"]) == 1 {
		s.home = e
	}
	s.r.value = cty.CapsuleVal(ensembleType, e)
}

func (s scope) evaluateRoot(e *Ensemble) {
	a := s.d.block.arg("root")
	root, ok := s.text(a)
	if !ok {
		return
	}
	if err := kind.ValidatePath(root); err != nil {
		s.wrong(a, "Illegal path", plan.Sentence(err.Error()))
		root = "/" // or every node below would be reported as well
	}
	e.Root = root
}

// The environment of the Terraform provider for ZooKeeper fills in what an
// ensemble leaves open, so that one configuration serves several places.
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
func (s scope) serversOfEnvironment(e *Ensemble) {
	list := s.getenv(serversVariable)
	if list == "" {
		return
	}
	for server := range strings.SplitSeq(list, ",") {
		server = strings.TrimSpace(server)
		if err := checkServer(server); err != nil {
			s.refuse(e.DeclRange, "Invalid server", "ensemble %q has no servers of its own, and the environment variable %s has %q: %s.", e.Name, serversVariable, server, err)
			return
		}
		e.Servers = append(e.Servers, server)
	}
}

func (s scope) authOfEnvironment(e *Ensemble) {
	user, password, file := s.getenv(usernameVariable), recipes.Secret(s.getenv(passwordVariable)), s.getenv(passwordFileVariable)
	if user == "" {
		return
	}
	for _, name := range []string{usernameVariable, passwordVariable} {
		if err := TextError(s.getenv(name)); err != nil {
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
			file = filepath.Join(s.loading.dir, file)
		}
		var err error
		if password, err = passwordIn(file); err != nil {
			s.refuse(e.DeclRange, "Cannot read the password", "%v. The environment variable %s names the file.", err, passwordFileVariable)
			return
		}
		e.passwordFiles = append(e.passwordFiles, file)
	}
	e.Auth = append(e.Auth, recipes.Auth{Scheme: "digest", Credentials: recipes.Secret(user+":") + password})
}

const maxServers = 100

func (s scope) evaluateServers(a *attribute, e *Ensemble) {
	v, ok := s.shown(a, cty.List(cty.String))
	if !ok {
		if !s.r.failed { // absent, or null
			s.serversOfEnvironment(e)
		}
		return
	}
	for it := v.ElementIterator(); it.Next(); {
		_, item := it.Element()
		if item.IsNull() {
			s.wrong(a, "Wrong type", "A server is null. Leave it out of the list.")
			return
		}
		server := strings.TrimSpace(item.AsString())
		if err := checkServer(server); err != nil {
			s.wrong(a, "Invalid server", fmt.Sprintf("%q: %s.", server, err))
			return
		}
		e.Servers = append(e.Servers, server)
	}
	switch n := len(e.Servers); {
	case n == 0:
		s.wrong(a, "No servers", `Name at least one server, such as "zk1:2181".`)
	case n > maxServers:
		s.wrong(a, "Too many servers", fmt.Sprintf("%d servers are listed; at most %d are allowed.", n, maxServers))
	}
}

func checkServer(server string) error {
	if name, ok := strings.CutPrefix(server, "dns-srv://"); ok {
		if name == "" || strings.ContainsAny(name, ",/: ") {
			return fmt.Errorf(`write the name of SRV records behind dns-srv://, as in "dns-srv://_zookeeper._tcp.example.com"`)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(server)
	switch {
	case strings.Contains(server, ",") || strings.ContainsAny(server, " /"):
		return fmt.Errorf(`write one "host:port" in each element of the list, and the path of a connect string as root`)
	case err != nil || host == "":
		return fmt.Errorf(`write a server as "host:port", for example "zk1:2181"`)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q is not a port: it must be a number from 1 to 65535", port)
	}
	return nil
}

// duration reads a time span in Go's notation; zero when the argument is not set.
func (s scope) duration(a *attribute, lo, hi time.Duration) time.Duration {
	text, ok := s.text(a)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		s.wrong(a, "Invalid time span", fmt.Sprintf(`%q is not a time span: write a number and a unit, such as "15s" or "500ms".`, text))
	case d < lo || d > hi:
		s.wrong(a, "Invalid time span", fmt.Sprintf("%s is out of range: it must be between %s and %s.", d, lo, hi))
	default:
		return d
	}
	return 0
}

func (s scope) evaluateTLS(b *block) *TLS {
	t := &TLS{CAFile: s.file(b.arg("ca_file")), CertFile: s.file(b.arg("cert_file")), KeyFile: s.file(b.arg("key_file"))}
	t.ServerName, _ = s.text(b.arg("server_name"))
	// null is not set; what is wrong in itself was meant to be.
	set := func(name, path string) bool { a := b.arg(name); return path != "" || a != nil && s.isBad(a) }
	if set("cert_file", t.CertFile) != set("key_file", t.KeyFile) {
		s.refuse(b.head, "Half a certificate", "cert_file and key_file belong together: set both, or neither.")
	}
	return t
}

func (s scope) evaluateAuth(b *block, e *Ensemble) {
	if !s.fits(b) {
		return
	}
	if b.name() != "digest" {
		s.evaluateLogin(b, e)
		return
	}
	at, ok := s.needs(b, "username")
	if !ok {
		return
	}
	user, ok := s.text(at) // access lists show it, digest:USER
	if ok && (user == "" || strings.Contains(user, ":")) {
		s.wrong(at, "Invalid user name", "The user name must not be empty or contain a colon, which separates it from the password.")
	}
	password, file := s.password(b)
	if file != "" { // access lists are made of it, so it is read now
		var err error
		if password, err = passwordIn(file); err != nil {
			s.wrong(b.arg("password_file"), "Cannot read the password", fmt.Sprintf("%v.", err))
			return
		}
		e.passwordFiles = append(e.passwordFiles, file)
	}
	e.Auth = append(e.Auth, recipes.Auth{Scheme: "digest", Credentials: recipes.Secret(user+":") + password})
}

// FromEnvironment returns the ensemble that the environment alone describes, as an
// ensemble block without arguments would: ZOOKEEPER_SERVERS, ZOOKEEPER_USERNAME, and
// ZOOKEEPER_PASSWORD or ZOOKEEPER_PASSWORD_FILE, which is relative to dir. nil without an
// error: no servers are set. It is for commands that name a path and need no configuration;
// nothing is declared on it.
func FromEnvironment(dir string, environ []string) (*Ensemble, error) {
	r := &report{dir: dir}
	e := &Ensemble{Name: "environment", Root: "/"}
	s := scope{evaluation: &evaluation{loading: &loading{report: r, opts: Options{Environ: environ}}}, r: &result{}}
	s.serversOfEnvironment(e)
	s.authOfEnvironment(e)
	if r.diags.HasErrors() {
		var texts []string
		for _, d := range r.sorted() {
			texts = append(texts, d.Detail)
		}
		return nil, errors.New(strings.Join(texts, " "))
	}
	if len(e.Servers) == 0 {
		return nil, nil
	}
	return e, nil
}
