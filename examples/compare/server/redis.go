//go:build linux

package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

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
		var clients []*client.Client
		for i, p := range programs {
			p.startRedis(up.Addrs[i], args)
			clients = append(clients, dialRedis(s, up.Addrs[i]))
		}
		up.Version = "Redis " + Must(info(clients[0], "redis_version"))
		if n > 1 {
			up.Version += fmt.Sprintf(", %d servers", n)
		}
		// Redis counts the commands of scripts, too. Nobody watches.
		up.Counts = func() (c Counts) {
			for _, each := range clients {
				c.Requests += Must(strconv.ParseInt(Must(info(each, "total_commands_processed")), 10, 64))
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

// startRedis returns when the program that was started answers: another that has the port would answer, too.
func (p *program) startRedis(addr string, args []string) {
	_, port, _ := strings.Cut(addr, ":")
	c := dialRedis(p.s, addr)
	p.start(func() error {
		pid, err := info(c, "process_id")
		if err == nil && pid != strconv.Itoa(p.pid()) {
			err = fmt.Errorf("process %s has %s", pid, addr)
		}
		return err
	}, found(p.s, "redis-server", "redis-server"), append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", p.dir, "--save", ""}, args...)...)
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
		c := dialRedis(s, replica.Addrs[0])
		for end := time.Now().Add(time.Minute); Must(info(c, "master_link_status")) != "up"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				s.Fatalf("the replica has not followed within a minute")
			}
		}
		up.FailOver = func() []string {
			primary.kill()
			Check(c.ReplicaOf(context.Background(), "NO", "ONE").Err())
			return replica.Addrs
		}
		return up
	})
}

func dialRedis(s *Scope, addr string) *client.Client {
	c := client.NewClient(&client.Options{Addr: addr, DisableIdentity: true, Protocol: 2, MaxRetries: -1})
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// info is a line of what Redis says of itself.
func info(c *client.Client, name string) (string, error) {
	text, err := c.Info(context.Background()).Result()
	_, value, _ := strings.Cut(text, "\r\n"+name+":")
	value, _, _ = strings.Cut(value, "\r\n")
	return value, err
}
