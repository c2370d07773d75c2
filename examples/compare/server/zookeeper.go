package server

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// zooKeeper is one server, or an ensemble, as an administrator would run it: with fsync, both compilers and a heap that is
// not in its way.
type zooKeeper struct {
	members  []*realzk.Server
	unsynced bool
}

func startZooKeeper(s *Scope, opts Options) Server { return zooKeepers(s, opts, false) }

// startZooKeeperUnsynced is for what durability costs: nobody should run it.
func startZooKeeperUnsynced(s *Scope, opts Options) Server { return zooKeepers(s, opts, true) }

func zooKeepers(s *Scope, opts Options, unsynced bool) Server {
	o := realzk.Options{
		HeapMiB:    512,
		JVM:        []string{"-XX:TieredStopAtLevel=4"},
		Properties: map[string]string{"zookeeper.preAllocSize": "65536"}, // its default
	}
	if unsynced {
		o.Properties["zookeeper.forceSync"] = "no"
	}
	if opts.Members > 1 {
		return &zooKeeper{realzk.StartEnsemble(s, opts.Members, o), unsynced}
	}
	return &zooKeeper{[]*realzk.Server{realzk.Start(s, o)}, unsynced}
}

func (z *zooKeeper) Addrs() (all []string) {
	for _, m := range z.members {
		all = append(all, m.Addr)
	}
	return all
}

func (z *zooKeeper) Pids() (all []int) {
	for _, m := range z.members {
		all = append(all, m.Pid)
	}
	return all
}

// Every node that is created, written or deleted adds the number of those who are told.
var toldOf = regexp.MustCompile(`(?m)^zk_sum_node_(?:created|changed|deleted|children)_watch_count\t(\d+)`)

var received = regexp.MustCompile(`(?m)^zk_packets_received\t(\d+)`)

func (z *zooKeeper) Counts() (c Counts, err error) {
	for _, m := range z.members {
		text := m.Word("mntr")
		requests := received.FindStringSubmatch(text)
		if requests == nil {
			return c, fmt.Errorf("%s does not answer mntr: %q", m.Addr, text[:min(len(text), 100)])
		}
		n, _ := strconv.ParseInt(requests[1], 10, 64) // digits
		c.Requests += n
		for _, told := range toldOf.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.ParseInt(told[1], 10, 64)
			c.Events += n
		}
	}
	return c, nil
}

// asking is what asking for the counts adds to them: each member counts the question.
func (z *zooKeeper) asking() int64 { return int64(len(z.members)) }

func (z *zooKeeper) Version() string {
	_, version, _ := strings.Cut(z.members[0].Word("mntr"), "zk_version\t")
	version, _, _ = strings.Cut(version, "-")
	s := "Apache ZooKeeper " + version
	if n := len(z.members); n > 1 {
		s += fmt.Sprintf(", %d servers", n)
	}
	return s
}

// KillLeader ends the leader of an ensemble as a crash would. The others elect another.
func (z *zooKeeper) KillLeader() error {
	for _, m := range z.members {
		if strings.Contains(m.Word("srvr"), "Mode: leader") {
			m.Kill()
			return nil
		}
	}
	return errors.New("no server leads")
}

// Led says whether one of the servers that run leads.
func (z *zooKeeper) Led() bool {
	return slices.ContainsFunc(z.members, func(m *realzk.Server) bool {
		return m.Running() && strings.Contains(m.Word("srvr"), "Mode: leader")
	})
}

func (z *zooKeeper) Durability() string {
	if z.unsynced {
		return "written, and not synchronised to disk"
	}
	if len(z.members) > 1 {
		return "written and synchronised to disk by a majority"
	}
	return "written and synchronised to disk"
}
