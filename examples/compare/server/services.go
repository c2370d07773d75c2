//go:build linux

package server

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	client "github.com/redis/go-redis/v9"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// zooKeeper is one server, or an ensemble, as an administrator would run it: with both JIT compilers, enough heap, and fsync. It
// fails over as it does when its leader crashes.
func zooKeeper(s *Scope, members int) *Server {
	o := realzk.Options{
		HeapMiB:    512,
		JVM:        []string{"-XX:TieredStopAtLevel=4"},
		Properties: map[string]string{"zookeeper.preAllocSize": "65536"}, // its default
	}
	var z []*realzk.Server
	up := &Server{Durability: "written and synchronised to disk", asking: int64(members), Counts: func() (c Counts) { // each server counts the request for its counters
		for _, m := range z {
			c.add(m.Word("mntr"), mntr)
		}
		return c
	}}
	if members > 1 {
		z = realzk.StartEnsemble(s, members, o)
		up.Version, up.Durability = fmt.Sprintf(", %d servers", members), up.Durability+" by a majority"
	} else {
		z = append(z, realzk.Start(s, o))
	}
	for _, m := range z {
		up.Addrs = append(up.Addrs, m.Addr)
	}
	_, version, _ := strings.Cut(z[0].Word("mntr"), "zk_version\t")
	version, _, _ = strings.Cut(version, "-")
	up.Version = "Apache ZooKeeper " + version + up.Version
	leader := func() *realzk.Server {
		for _, m := range z {
			if m.Running() && strings.Contains(m.Word("srvr"), "Mode: leader") {
				return m
			}
		}
		return nil
	}
	up.FailOver = func() []string {
		leader().Kill()
		for end := time.Now().Add(time.Minute); leader() == nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				s.Fatalf("no leader was elected within a minute")
			}
		}
		return up.Addrs
	}
	return up
}

// Every node that is created, written or deleted adds the number of clients that get an event.
var mntr = regexp.MustCompile(`(?m)^zk_(?:packets_received|(sum_node_(?:created|changed|deleted|children)_watch_count))\t(\d+)`)

// add adds the counters of a server. Counters that the group in lines matches are events, the others are requests.
func (c *Counts) add(text string, lines *regexp.Regexp) {
	all := lines.FindAllStringSubmatch(text, -1)
	if all == nil {
		lock.Check(fmt.Errorf("the server counts nothing: %.100q", text))
	}
	for _, line := range all {
		if n := int64(lock.Must(strconv.ParseFloat(line[2], 64))); line[1] != "" {
			c.Events += n
		} else {
			c.Requests += n
		}
	}
}

// redis is one server, or several that know nothing of each other, which is what Redlock wants. It fails over by a restart
// that loses what the server had in memory.
func redis(n int, durability string, args ...string) starter {
	return func(s *Scope, _ int) *Server {
		up := &Server{Durability: durability, asking: int64(n)} // INFO is a command
		up.Addrs, _ = free(s, n)
		var programs []*program
		var clients []*client.Client
		for i, addr := range up.Addrs {
			programs = append(programs, newProgram(s, false, "redis-server", "redis-server"))
			clients = append(clients, programs[i].startRedis(addr, args))
		}
		up.Version = "Redis " + info(clients[0], "redis_version")
		// Redis also counts the commands of scripts. No client watches, so there are no events.
		up.Counts = func() (c Counts) {
			for _, each := range clients {
				c.Requests += lock.Must(strconv.ParseInt(info(each, "total_commands_processed"), 10, 64))
			}
			return c
		}
		up.FailOver = func() []string {
			programs[0].kill()
			programs[0].startRedis(up.Addrs[0], args)
			return up.Addrs
		}
		return up
	}
}

// startRedis returns when the started program answers. It checks that, because another program on the port would answer, too.
func (p *program) startRedis(addr string, args []string) *client.Client {
	c := client.NewClient(&client.Options{Addr: addr, DisableIdentity: true, Protocol: 2, MaxRetries: -1})
	p.s.Cleanup(func() { _ = c.Close() })
	_, port, _ := strings.Cut(addr, ":")
	p.start(func() {
		if pid := info(c, "process_id"); pid != strconv.Itoa(p.cmd.Process.Pid) {
			lock.Check(fmt.Errorf("process %s has %s", pid, addr))
		}
	}, append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", p.dir, "--save", ""}, args...)...)
	return c
}

// StartRedisPair starts a Redis with a replica. It fails over as Sentinel does. The replica gets a write later than on
// loopback, by the lag: Redis replicates after it has answered.
func StartRedisPair(s *Scope, lag time.Duration) (*Server, error) {
	return begin(s, func(s *Scope) *Server {
		addrs, _ := free(s, 2)
		args := []string{"--appendonly", "no", "--repl-diskless-sync-delay", "0"}
		primary, replica := newProgram(s, false, "redis-server", "redis-server"), newProgram(s, false, "redis-server", "redis-server")
		primary.startRedis(addrs[0], args)
		from := addrs[0]
		if lag > 0 {
			from = lock.Must(Away(s, addrs[:1], 2*lag)).Addrs[0]
		}
		c := replica.startRedis(addrs[1], append(args, "--replicaof", strings.Replace(from, ":", " ", 1)))
		for end := time.Now().Add(time.Minute); info(c, "master_link_status") != "up"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				s.Fatalf("the replica has not followed within a minute")
			}
		}
		return &Server{Addrs: addrs[:1], FailOver: func() []string {
			primary.kill()
			lock.Check(c.ReplicaOf(context.Background(), "NO", "ONE").Err())
			return addrs[1:]
		}}
	})
}

// info is a line of Redis' INFO.
func info(c *client.Client, name string) string {
	_, value, _ := strings.Cut(lock.Must(c.Info(context.Background()).Result()), "\r\n"+name+":")
	value, _, _ = strings.Cut(value, "\r\n")
	return value
}

// etcd is one member: its figures do not include the cost of a majority.
func etcd(s *Scope, _ int) *Server {
	p := newProgram(s, false, "etcd-server", "etcd")
	addrs, _ := free(s, 2)
	client, peer := "http://"+addrs[0], "http://"+addrs[1]
	p.start(func() { messages(client) }, "--data-dir", p.dir+"/data", "--name", "one", "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "one="+peer, "--log-level", "error", "--logger", "zap")
	return &Server{Addrs: addrs[:1], Version: strings.Replace(p.version(), "etcd Version:", "etcd", 1) + ", one member",
		Durability: "written and synchronised to disk", Counts: func() Counts { return messages(client) }}
}

var metrics = regexp.MustCompile(`(?m)^(?:grpc_server_msg_received_total\{.*|(grpc_server_msg_sent_total)\{.*grpc_method="Watch".*) (\S+)$`)

// messages counts the messages of etcd: a watch is a stream of them.
func messages(url string) (c Counts) {
	answer := lock.Must((&http.Client{Timeout: 5 * time.Second}).Get(url + "/metrics"))
	defer answer.Body.Close()
	c.add(string(lock.Must(io.ReadAll(answer.Body))), metrics)
	return c
}

// postgres has no counts: no counter of PostgreSQL's requests is up to date when it is read.
func postgres(s *Scope, _ int) *Server {
	p := newProgram(s, true, "postgresql", "/usr/lib/postgresql/*/bin/postgres")
	if out, err := p.command(filepath.Dir(p.name)+"/initdb", "-D", p.dir+"/data", "-U", "compare", "--auth=trust", "--no-sync").CombinedOutput(); err != nil {
		s.Fatalf("initdb: %v: %s", err, last(string(out)))
	}
	addrs, ports := free(s, 1)
	up := &Server{Addrs: addrs, Durability: "written and synchronised to disk; an advisory lock is in memory",
		Counts: func() Counts { return Counts{-1, -1} }}
	p.start(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c := lock.Must(pgx.Connect(ctx, "postgres://compare@"+addrs[0]+"/postgres"))
		defer c.Close(ctx)
		lock.Check(c.QueryRow(ctx, "select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)").Scan(&up.Version))
		lock.Must(c.Exec(ctx, "create table if not exists locks (name text primary key)"))
	}, "-D", p.dir+"/data", "-p", ports[0], "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=300")
	return up
}

// pgBouncer is PostgreSQL behind a pool that gives every transaction any of its connections. Most programs with many
// processes use such a pool.
func pgBouncer(s *Scope, members int) *Server {
	p := newProgram(s, true, "pgbouncer", "/usr/sbin/pgbouncer")
	up := postgres(s, members)
	addrs, ports := free(s, 1)
	host, dbPort, _ := strings.Cut(up.Addrs[0], ":")
	lock.Check(os.WriteFile(p.dir+"/pgbouncer.ini", fmt.Appendf(nil, "[databases]\npostgres = host=%s port=%s user=compare\n[pgbouncer]\n"+
		"listen_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\nlogfile =\npidfile =\n", host, dbPort, ports[0]), 0o644))
	p.start(func() { _ = lock.Must(net.Dial("tcp", addrs[0])).Close() }, p.dir+"/pgbouncer.ini")
	up.Addrs = addrs
	return up
}

func mariadb(s *Scope, _ int) *Server {
	p := newProgram(s, true, "mariadb-server-core", "/usr/sbin/mariadbd")
	addrs, ports := free(s, 1)
	db := lock.Must(sql.Open("mysql", "root@tcp("+addrs[0]+")/"))
	s.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	// GET_LOCK needs no table, so the server starts without its system tables. The program that creates them is in a client
	// package.
	p.start(func() { lock.Check(db.Ping()) }, "--no-defaults", "--skip-grant-tables", "--datadir="+p.dir, "--port="+ports[0], "--bind-address=127.0.0.1",
		"--socket="+p.dir+"/socket", "--max-connections=300", "--skip-name-resolve")
	_, version, _ := strings.Cut(p.version(), "Ver ")
	version, _, _ = strings.Cut(version, "-")
	return &Server{Addrs: addrs, Version: "MariaDB " + version, Durability: "in memory: GET_LOCK writes nothing", asking: 1, Counts: func() (c Counts) {
		var name string
		lock.Check(db.QueryRow("show global status like 'Questions'").Scan(&name, &c.Requests))
		return c
	}}
}
