//go:build linux

package server

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// redis is one server, or several that know nothing of each other, which is what Redlock wants. It fails over as a server does
// that starts again without what it had in memory.
func redis(n int, durability string, args ...string) starter {
	return func(s *Scope, _ int) *Server {
		up := &Server{Durability: durability, asking: int64(n)} // INFO is a command
		var programs []*program
		for _, port := range realzk.FreePorts(s, n) {
			up.Addrs, programs = append(up.Addrs, loopback(port)), append(programs, newProgram(s, false))
		}
		for i, p := range programs {
			p.startRedis(up.Addrs[i], args)
		}
		up.Version = "Redis " + info(up.Addrs[0])["redis_version"]
		if n > 1 {
			up.Version += fmt.Sprintf(", %d servers", n)
		}
		// Redis counts the commands of scripts, too. Nobody watches.
		up.Counts = func() (c Counts) {
			for _, addr := range up.Addrs {
				c.Requests += Must(strconv.ParseInt(info(addr)["total_commands_processed"], 10, 64))
			}
			return c
		}
		up.pids = func() (all []int) {
			for _, p := range programs {
				all = append(all, p.pid())
			}
			return all
		}
		up.FailOver = func() []string {
			programs[0].kill()
			programs[0].startRedis(up.Addrs[0], args)
			return up.Addrs
		}
		return up
	}
}

func (p *program) startRedis(addr string, args []string) {
	_, port, _ := strings.Cut(addr, ":")
	p.start(p.listens(addr), found(p.s, "redis-server", "redis-server"),
		append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", p.dir, "--save", ""}, args...)...)
}

// StartRedisPair starts a Redis with a replica, to which it fails over as Sentinel does. The replica hears of a write so much
// later than it would on loopback: Redis replicates after it has answered.
func StartRedisPair(s *Scope, lag time.Duration) (*Server, error) {
	return begin(s, func(s *Scope) *Server {
		up := &Server{Addrs: []string{loopback(realzk.FreePorts(s, 1)[0])}}
		primary := newProgram(s, false)
		args := []string{"--appendonly", "no", "--repl-diskless-sync-delay", "0"}
		primary.startRedis(up.Addrs[0], args)
		from := up.Addrs[0]
		if lag > 0 {
			from = Must(Away(s, up.Addrs, 2*lag)).Addrs[0]
		}
		replica := redis(1, "", append(args, "--replicaof", strings.Replace(from, ":", " ", 1))...)(s, 1)
		for end := time.Now().Add(time.Minute); info(replica.Addrs[0])["master_link_status"] != "up"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				s.Fatalf("the replica has not followed within a minute")
			}
		}
		up.FailOver = func() []string {
			primary.kill()
			talk(replica.Addrs[0], "REPLICAOF NO ONE", func(in *bufio.Reader) {
				if answer := Must(in.ReadString('\n')); !strings.HasPrefix(answer, "+OK") {
					s.Fatalf("the replica was not promoted: %s", strings.TrimSpace(answer))
				}
			})
			return replica.Addrs
		}
		return up
	})
}

// talk sends a command and reads the answer.
func talk(addr, command string, answer func(*bufio.Reader)) {
	c := Must(net.DialTimeout("tcp", addr, time.Second))
	defer c.Close()
	Check(c.SetDeadline(time.Now().Add(10 * time.Second)))
	Must(fmt.Fprint(c, command+"\r\n"))
	answer(bufio.NewReader(c))
}

// info is what Redis says of itself.
func info(addr string) map[string]string {
	all := map[string]string{}
	talk(addr, "INFO", func(in *bufio.Reader) {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			Check(fmt.Errorf("%s does not answer INFO: %w", addr, err))
		}
		for read := 0; read < size; {
			line := Must(in.ReadString('\n'))
			read += len(line)
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			all[name] = value
		}
	})
	return all
}
