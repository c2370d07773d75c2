//go:build linux

package server

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// etcd is one member: what a majority would add is not in its figures.
func etcd(s *Scope, _ int) *Server {
	name, p := found(s, "etcd-server", "etcd"), newProgram(s, false)
	ports := realzk.FreePorts(s, 2)
	addr := loopback(ports[0])
	client, peer := "http://"+addr, "http://"+loopback(ports[1])
	counts := func() Counts { return messages(client) }
	p.start(func() error { return Try(func() { counts() }) }, name, "--data-dir", p.dir+"/data", "--name", "one",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer, "--log-level", "error", "--logger", "zap")
	return &Server{Addrs: []string{addr}, Version: strings.Replace(versionOf(name), "etcd Version:", "etcd", 1) + ", one member",
		Durability: "written and synchronised to disk", Counts: counts}
}

// messages are what etcd counts: a watch is a stream of them.
func messages(url string) (c Counts) {
	client := http.Client{Timeout: 5 * time.Second}
	answer := Must(client.Get(url + "/metrics"))
	defer answer.Body.Close()
	seen := false
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case strings.HasPrefix(name, "grpc_server_msg_received_total{"):
			seen = true
			c.Requests += int64(n)
		case strings.HasPrefix(name, "grpc_server_msg_sent_total{") && strings.Contains(name, `grpc_method="Watch"`):
			c.Events += int64(n)
		}
	}
	if !seen {
		Check(fmt.Errorf("%s counts no messages", url))
	}
	return c
}
