package words

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/kind"
)

// Unasked is a server of the ensemble that did not tell all of its connections. A session that seems cut off may be connected to it.
type Unasked struct {
	Server string // "other servers" if it is not known which servers there are
	Why    string

	Forbids bool // the reason is that the server does not allow the word cons
}

// whyUnasked says why not all connections of a server are known.
func (s *Server) whyUnasked() Unasked {
	if slices.Contains(s.Forbids, "cons") {
		return Unasked{Server: s.Name, Why: "it does not allow the word cons: add it to 4lw.commands.whitelist", Forbids: true}
	}
	return Unasked{Server: s.Name, Why: s.Error}
}

const (
	maxMembers = 255 // no server has a higher number
	maxOthers  = 32  // the largest number of servers that are asked because /zookeeper/config names them
	maxHost    = 255 // no host name is longer
)

// configNode is where every server since 3.5 shows the servers of its ensemble. The node is empty if there is only one server.
const configNode = "/zookeeper/config"

// member is a server of the ensemble, as the ensemble's own configuration has it.
type member struct {
	host   string // the name that the other members use
	client string // host:port for clients, without TLS; "" in configurations written before 3.5
}

// parseMembers reads lines such as server.3=zk3:2888:3888:participant;0.0.0.0:2181.
func parseMembers(config string) (out []member) {
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !strings.HasPrefix(key, "server.") {
			continue
		}
		quorum, client, _ := strings.Cut(value, ";")
		quorum, _, _ = strings.Cut(quorum, "|") // a member may have several addresses
		m := member{host: hostOf(quorum)}
		if client, _, _ = strings.Cut(client, ";"); client != "" {
			host, port := "", client
			if i := strings.LastIndexByte(client, ':'); i >= 0 {
				host, port = hostOf(client), client[i+1:]
			}
			if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
				host = m.host
			}
			m.client = net.JoinHostPort(host, port)
		}
		out = append(out, m)
	}
	return out
}

// hostOf returns the host of an address, without its port.
func hostOf(addr string) string {
	if rest, ok := strings.CutPrefix(addr, "["); ok {
		addr, _, _ = strings.Cut(rest, "]")
		return addr[:min(len(addr), maxHost)]
	}
	host, _, _ := strings.Cut(addr, ":")
	return host[:min(len(host), maxHost)]
}

// otherServers returns the servers of the ensemble that this client's configuration does not name, if it finds an address to ask. It notes
// the servers without an address in h.Unasked. If the client names at least as many addresses as the ensemble has servers, otherServers
// assumes that the client names all servers.
func (a *Asker) otherServers(ctx context.Context, live *session.Session, h *Answers) (out []askedServer) {
	h.Reads++
	data, _, err := live.Get(ctx, configNode)
	members := parseMembers(string(data))
	if n := len(members); err == nil && (n == 0 || n > maxMembers) {
		err = fmt.Errorf("%s names %d", configNode, n)
	}
	if err != nil {
		h.Unasked = append(h.Unasked, Unasked{Server: "other servers", Why: "which there are is not known: " + kind.Visible(err.Error())})
		return nil
	}
	named := map[string]bool{} // the configured addresses that belong to no member found so far
	for _, p := range live.Servers() {
		named[p.Addr] = true
	}
	if len(named) >= len(members) {
		return nil
	}
	_, port, _ := net.SplitHostPort(live.At().Addr)
	on := map[string]int{} // how many members are on a host
	for _, m := range members {
		on[m.host]++
	}
	left := unnamedMembers(ctx, live, members, named)
	for i, m := range left {
		at := m.client
		// The port is not known. We try the port of our server, because most ensembles have the same port everywhere.
		if at == "" || live.TLS() {
			at = net.JoinHostPort(m.host, port)
		}
		switch {
		case i == maxOthers:
			h.Unasked = append(h.Unasked, Unasked{Server: fmt.Sprintf("%d more servers", len(left)-i), Why: "they are too many to ask"})
			return out
		case at != m.client && on[m.host] > 1:
			h.Unasked = append(h.Unasked, Unasked{Server: "a server on " + kind.Visible(m.host), Why: "the ensemble's configuration does not say at which address clients reach it: name it in servers"})
		default:
			out = append(out, askedServer{Server: servers.Server{Name: at, Addr: at, Told: true}})
		}
	}
	return out
}

// unnamedMembers returns the members that this client's configuration does not name. It deletes the addresses of all other members from the
// set named.
func unnamedMembers(ctx context.Context, live *session.Session, members []member, named map[string]bool) []member {
	ctx, cancel := context.WithTimeout(ctx, memberFor)
	defer cancel()
	hosts := map[string][]string{}
	of := func(host string) []string {
		if hosts[host] == nil {
			hosts[host] = live.Addresses(ctx, host)
		}
		return hosts[host]
	}
	take := func(fits func(host, port string) bool) bool {
		for addr := range named {
			if host, port, err := net.SplitHostPort(addr); err == nil && fits(host, port) {
				delete(named, addr)
				return true
			}
		}
		return false
	}
	exact := func(m member) bool {
		host, port, err := net.SplitHostPort(m.client)
		return err == nil && take(func(h, p string) bool { return p == port && slices.Contains(of(host), h) })
	}
	anyPort := func(m member) bool {
		return take(func(h, _ string) bool { return slices.Contains(of(m.host), h) })
	}
	return slices.DeleteFunc(slices.DeleteFunc(members, exact), anyPort)
}
