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
	err = Try(func() {
		for _, addr := range r.addrs {
			c.Requests += Must(strconv.ParseInt(Must(ask(addr))["total_commands_processed"], 10, 64))
		}
	})
	return c, err
}

// talk sends a command and reads the answer.
func talk(addr, command string, answer func(*bufio.Reader)) error {
	return Try(func() {
		c := Must(net.DialTimeout("tcp", addr, time.Second))
		defer c.Close()
		Check(c.SetDeadline(time.Now().Add(10 * time.Second)))
		Must(fmt.Fprint(c, command+"\r\n"))
		answer(bufio.NewReader(c))
	})
}

// ask sends INFO.
func ask(addr string) (map[string]string, error) {
	info := map[string]string{}
	return info, talk(addr, "INFO", func(in *bufio.Reader) {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			Check(fmt.Errorf("%s does not answer INFO: %w", addr, err))
		}
		for read := 0; read < size; {
			line := Must(in.ReadString('\n'))
			read += len(line)
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			info[name] = value
		}
	})
}

// RedisPair is a Redis with a replica, which is behind it by some time: Redis replicates after it has answered.
type RedisPair struct {
	Primary, Replica string // addresses
	primary, replica *redis
}

// StartRedisPair starts both. The replica hears of a write so much later than it would on loopback.
func StartRedisPair(s *Scope, lag time.Duration) (*RedisPair, error) {
	return begin(s, func(s *Scope) *RedisPair {
		args := []string{"--appendonly", "no", "--repl-diskless-sync-delay", "0"}
		p := &RedisPair{primary: redises(s, 1, "", args...).(*redis)}
		p.Primary = p.primary.addrs[0]
		from := p.Primary
		if lag > 0 {
			from = Must(Away(s, []string{from}, 2*lag)).Addrs[0]
		}
		p.replica = redises(s, 1, "", append(args, "--replicaof", strings.Replace(from, ":", " ", 1))...).(*redis)
		p.Replica = p.replica.addrs[0]
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			info, err := ask(p.Replica)
			if err == nil && info["master_link_status"] == "up" {
				return p
			}
			if time.Now().After(end) {
				s.Fatalf("the replica has not followed within a minute: %v", err)
			}
		}
	})
}

// FailOver kills the primary and promotes the replica, as Sentinel does.
func (p *RedisPair) FailOver() error {
	p.primary.programs[0].kill()
	return talk(p.Replica, "REPLICAOF NO ONE", func(in *bufio.Reader) {
		if answer := Must(in.ReadString('\n')); !strings.HasPrefix(answer, "+OK") {
			Check(fmt.Errorf("the replica was not promoted: %s", strings.TrimSpace(answer)))
		}
	})
}

// Forget kills one of several servers, which starts again without what it had in memory.
func (r *redis) Forget(i int) error {
	r.programs[i].kill()
	return Try(func() { r.start(i) })
}
