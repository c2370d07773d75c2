//go:build linux

package server

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// zooKeeper is one server, or an ensemble, as an administrator would run it: with both compilers, a heap that is not in its way,
// and fsync.
func zooKeeper(s *Scope, members int) *Server {
	o := realzk.Options{
		HeapMiB:    512,
		JVM:        []string{"-XX:TieredStopAtLevel=4"},
		Properties: map[string]string{"zookeeper.preAllocSize": "65536"}, // its default
	}
	var z ensemble
	if members > 1 {
		z = realzk.StartEnsemble(s, members, o)
	} else {
		z = ensemble{realzk.Start(s, o)}
	}
	_, version, _ := strings.Cut(z[0].Word("mntr"), "zk_version\t")
	version, _, _ = strings.Cut(version, "-")
	up := &Server{Version: "Apache ZooKeeper " + version, Durability: "written and synchronised to disk", Counts: z.counts, asking: int64(len(z))}
	if members > 1 {
		up.Version += fmt.Sprintf(", %d servers", members)
		up.Durability += " by a majority"
	}
	for _, m := range z {
		up.Addrs = append(up.Addrs, m.Addr)
	}
	up.FailOver = func() []string { z.failOver(s); return up.Addrs }
	return up
}

type ensemble []*realzk.Server

// Every node that is created, written or deleted adds the number of those who are told.
var toldOf = regexp.MustCompile(`(?m)^zk_sum_node_(?:created|changed|deleted|children)_watch_count\t(\d+)`)

var received = regexp.MustCompile(`(?m)^zk_packets_received\t(\d+)`)

// counts asks each member, which counts the question.
func (z ensemble) counts() (c Counts) {
	for _, m := range z {
		text := m.Word("mntr")
		requests := received.FindStringSubmatch(text)
		if requests == nil {
			Check(fmt.Errorf("%s does not answer mntr: %q", m.Addr, text[:min(len(text), 100)]))
		}
		c.Requests += Must(strconv.ParseInt(requests[1], 10, 64))
		for _, told := range toldOf.FindAllStringSubmatch(text, -1) {
			c.Events += Must(strconv.ParseInt(told[1], 10, 64))
		}
	}
	return c
}

// failOver kills the leader as a crash would, and waits until the others have elected another.
func (z ensemble) failOver(s *Scope) {
	leader := z.leader()
	if leader == nil {
		s.Fatalf("no server leads")
	}
	leader.Kill()
	for end := time.Now().Add(time.Minute); z.leader() == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("no leader was elected within a minute")
		}
	}
}

func (z ensemble) leader() *realzk.Server {
	for _, m := range z {
		if m.Running() && strings.Contains(m.Word("srvr"), "Mode: leader") {
			return m
		}
	}
	return nil
}
