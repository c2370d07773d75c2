package server

import (
	"bufio"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// etcd is one member: what a majority would add is not in its figures.
type etcd struct {
	addr    string
	name    string
	program *program
}

func startEtcd(s *Scope, _ Options) Server {
	name := found(s, "etcd-server", "etcd")
	ports := realzk.FreePorts(s, 2)
	e := &etcd{addr: loopback(ports[0]), name: name, program: newProgram(s, false)}
	client, peer := "http://"+e.addr, "http://"+loopback(ports[1])
	e.program.start(func() error { _, err := e.Counts(); return err }, name, "--data-dir", e.program.dir+"/data", "--name", "one",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer, "--log-level", "error", "--logger", "zap")
	return e
}

func (e *etcd) Addrs() []string    { return []string{e.addr} }
func (e *etcd) Pids() []int        { return []int{e.program.pid()} }
func (e *etcd) Durability() string { return "written and synchronised to disk" }

func (e *etcd) Version() string {
	out, _ := exec.Command(e.name, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.Replace(first, "etcd Version:", "etcd", 1) + ", one member"
}

// Counts are of messages: a watch is a stream of them.
func (e *etcd) Counts() (c Counts, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get("http://" + e.addr + "/metrics")
	if err != nil {
		return c, err
	}
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
		return c, fmt.Errorf("%s counts no messages", e.addr)
	}
	return c, nil
}
