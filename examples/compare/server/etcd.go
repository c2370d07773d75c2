//go:build linux

package server

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
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

var (
	heard = regexp.MustCompile(`(?m)^grpc_server_msg_received_total\{.* (\S+)$`)
	told  = regexp.MustCompile(`(?m)^grpc_server_msg_sent_total\{.*grpc_method="Watch".* (\S+)$`)
)

// messages are what etcd counts: a watch is a stream of them.
func messages(url string) (c Counts) {
	client := http.Client{Timeout: 5 * time.Second}
	answer := Must(client.Get(url + "/metrics"))
	defer answer.Body.Close()
	text := string(Must(io.ReadAll(answer.Body)))
	sum := func(lines *regexp.Regexp) (n int64) {
		for _, line := range lines.FindAllStringSubmatch(text, -1) {
			n += int64(Must(strconv.ParseFloat(line[1], 64)))
		}
		return n
	}
	if !heard.MatchString(text) {
		Check(fmt.Errorf("%s counts no messages", url))
	}
	return Counts{Requests: sum(heard), Events: sum(told)}
}
