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

// redis is one server, or several that know nothing of each other, which is what Redlock wants.
type redis struct {
	addrs      []string
	programs   []*program
	durability string
	args       []string
}

func startRedis(s *Scope, _ Options) Server {
	return redises(s, 1, "in memory", "--appendonly", "no")
}

func startRedisSynced(s *Scope, _ Options) Server {
	return redises(s, 1, "written and synchronised to disk", "--appendonly", "yes", "--appendfsync", "always")
}

func startThreeRedises(s *Scope, _ Options) Server {
	return redises(s, 3, "in the memory of two of three", "--appendonly", "no")
}

func redises(s *Scope, n int, durability string, args ...string) Server {
	r := &redis{durability: durability, args: args}
	for _, port := range realzk.FreePorts(s, n) {
		r.addrs, r.programs = append(r.addrs, loopback(port)), append(r.programs, newProgram(s, false))
	}
	for i := range r.addrs {
		r.start(i)
	}
	return r
}

func (r *redis) start(i int) {
	p := r.programs[i]
	_, port, _ := strings.Cut(r.addrs[i], ":")
	p.start(p.listens(r.addrs[i]), found(p.s, "redis-server", "redis-server"),
		append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", p.dir, "--save", ""}, r.args...)...)
}

func (r *redis) Addrs() []string    { return r.addrs }
func (r *redis) Durability() string { return r.durability }
func (r *redis) asking() int64      { return int64(len(r.addrs)) } // INFO is a command

func (r *redis) Pids() (all []int) {
	for _, p := range r.programs {
		all = append(all, p.pid())
	}
	return all
}

func (r *redis) Version() string {
	info, err := ask(r.addrs[0])
	if err != nil {
		return "Redis"
	}
	s := "Redis " + info["redis_version"]
	if len(r.addrs) > 1 {
		s += fmt.Sprintf(", %d servers", len(r.addrs))
	}
	return s
}

// Counts has the commands of scripts, too: Redis counts them. Nobody watches.
func (r *redis) Counts() (c Counts, err error) {
	for _, addr := range r.addrs {
		info, err := ask(addr)
		if err != nil {
			return c, err
		}
		n, err := strconv.ParseInt(info["total_commands_processed"], 10, 64)
		if err != nil {
			return c, err
		}
		c.Requests += n
	}
	return c, nil
}

// ask sends INFO.
func ask(addr string) (map[string]string, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprint(c, "INFO\r\n"); err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	var size int
	if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
		return nil, fmt.Errorf("%s does not answer INFO: %w", addr, err)
	}
	info := map[string]string{}
	for read := 0; read < size; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		read += len(line)
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info, nil
}
