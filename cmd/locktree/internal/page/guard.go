package page

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Guard lets through what may be asked, under a name that is ours.
func Guard(next http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			plain(w, http.StatusMethodNotAllowed, "this page changes nothing: GET and HEAD only\n")
		case !ours(r.Host, hosts):
			plain(w, http.StatusMisdirectedRequest, "this name is not known here: add it with -host, or use the address\n")
		case foreignOrigin(r):
			plain(w, http.StatusForbidden, "other sites may link to this page and not read it\n")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ours reports whether a request is for this server by name. A page of somebody else's, whose name was made to point here (DNS
// rebinding), comes under that name; nobody can make a browser write an address there.
func ours(host string, known []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
}

// foreignOrigin reports whether a page of another origin asks. Following a link from there is something else.
func foreignOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		_, host, ok := strings.Cut(origin, "://")
		return !ok || !strings.EqualFold(host, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// Server is an http.Server with a limit on everything.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
}

// maxConnections is how many are served at a time: the next one waits until another ends. One that asks for nothing ends soon, see Server.
const maxConnections = 1024
